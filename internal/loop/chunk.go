package loop

// Chunk sizes in bytes. A connection's output begins with a small chunk and goes on with larger ones, so that thousands
// of clients with one short reply each stay in cache and a bulk of megabytes needs few writes.
const (
	smallChunk  = 1 << 10
	mediumChunk = 16 << 10
	largeChunk  = 128 << 10
)

// freeBytesMax bounds the bytes that one class of free chunks may hold; what is above is left to the garbage collector.
// The trim of every second brings it down further when the peak is over (see chunkPool.trim).
const freeBytesMax = 8 << 20

// Chunk is a piece of a connection's output. It belongs to the loop that made it and is recycled when it has been
// written whole and nobody holds a reference to it: a pipe keeps the bytes of a request until that request is answered,
// because a redirect or a lost connection may ask for them again.
type Chunk struct {
	buf     []byte
	written int
	refs    int
	queued  bool
	class   int8 // index into chunkPool.free; -1: made to measure, never recycled
	next    *Chunk
}

// Bytes returns n bytes of the chunk from off. They stay valid while the caller holds its reference.
func (k *Chunk) Bytes(off, n int) []byte { return k.buf[off : off+n : off+n] }

// room is how many bytes can still be appended.
func (k *Chunk) room() int { return cap(k.buf) - len(k.buf) }

// chunkPool keeps free chunks of one loop, by class.
type chunkPool struct {
	free [3]*Chunk
	n    [3]int
	used int    // chunks that are in use
	low  [3]int // fewest free chunks since the last trim: those were not needed
}

var classSize = [3]int{smallChunk, mediumChunk, largeChunk}

func (p *chunkPool) get(class int8) *Chunk {
	p.used++
	k := p.free[class]
	if k == nil {
		return &Chunk{buf: make([]byte, 0, classSize[class]), class: class}
	}
	p.free[class] = k.next
	p.n[class]--
	if p.n[class] < p.low[class] {
		p.low[class] = p.n[class]
	}
	k.next = nil
	return k
}

// measured returns a chunk of any size, which is not recycled.
func (p *chunkPool) measured(size int) *Chunk {
	p.used++
	return &Chunk{buf: make([]byte, 0, size), class: -1}
}

func (p *chunkPool) put(k *Chunk) {
	if k.refs != 0 || k.queued {
		panic("BUG: chunk recycled while in use")
	}
	p.used--
	if k.class < 0 || p.n[k.class]*classSize[k.class] >= freeBytesMax {
		k.buf, k.next = nil, nil
		return
	}
	k.buf, k.written = k.buf[:0], 0
	k.next = p.free[k.class]
	p.free[k.class] = k
	p.n[k.class]++
}

// trim gives back half of the chunks that nobody needed since the last call (free lists that are never given back once
// cost a proxy 100 GB).
func (p *chunkPool) trim() {
	for class := range p.free {
		for drop := (p.low[class] + 1) / 2; drop > 0 && p.free[class] != nil; drop-- {
			p.free[class] = p.free[class].next
			p.n[class]--
		}
		p.low[class] = p.n[class]
	}
}

// empty reports whether there is no free chunk.
func (p *chunkPool) empty() bool { return p.n[0]|p.n[1]|p.n[2] == 0 }

// held returns the bytes in free chunks.
func (p *chunkPool) held() int {
	sum := 0
	for class, n := range p.n {
		sum += n * classSize[class]
	}
	return sum
}
