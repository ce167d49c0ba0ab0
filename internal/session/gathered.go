package session

// gatherLease is how much a loop takes at once of what the process may hold. It keeps one lease: so an ordinary split
// command touches nothing that loops share.
const gatherLease = 1 << 20

// gatheredBytes counts the bytes that one loop holds of replies that are being merged. It belongs to the loop.
type gatheredBytes struct {
	held   int64
	leased int64 // of Shared.gathered
}

// countGathered counts what has come of the replies to p's parts. When the process may not hold that much, a command that
// changes nothing is refused; the replies to others are short, and tell what has been done.
func (p *pending) countGathered(readOnly bool) {
	w := p.worker
	now := p.gather.Held()
	if now > p.gained && !w.mayHold(now-p.gained) && readOnly {
		p.gather.Refuse(appendError(nil, errGatherFull))
		w.Stats.GatherRefused++
		now = 0
	}
	w.gathered.held += now - p.gained
	p.gained = now
	w.fitLease()
}

// releaseGathered counts what p's parts were answered as gone.
func (p *pending) releaseGathered() {
	if p.gained != 0 {
		p.worker.gathered.held -= p.gained
		p.gained = 0
		p.worker.fitLease()
	}
}

// mayHold reports whether the loop may hold so many bytes more, and takes a lease for them.
func (w *Worker) mayHold(more int64) bool {
	g := &w.gathered
	lack := g.held + more - g.leased
	if lack <= 0 {
		return true
	}
	lack = (lack + gatherLease - 1) / gatherLease * gatherLease
	if w.shared.gathered.Add(lack) > w.shared.Settings.GatherBuffer+int64(len(w.shared.Workers))*gatherLease {
		w.shared.gathered.Add(-lack)
		return false
	}
	g.leased += lack
	return true
}

// fitLease gives back what the loop has leased and does not need.
func (w *Worker) fitLease() {
	g := &w.gathered
	need := max(1, (g.held+gatherLease-1)/gatherLease) * gatherLease
	if spare := g.leased - need; spare > 0 {
		w.shared.gathered.Add(-spare)
		g.leased -= spare
	}
}
