package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/report"
	"github.com/sluiceproxy/sluice/bench/rig"
)

func allocsFact(operation load.Operation, pipeline int) string {
	return fmt.Sprintf("heap allocations per %s, P=%d", operation, pipeline)
}

// allocations counts the daemon's heap allocations while connections are open and commands flow, less what it
// allocates in the same time without a load: two scrapes and its timers. The median of the rounds leaves out what happens
// now and then and not per command: making another connection to the server costs some hundred.
func allocations(ctx context.Context, l *Lab) error {
	if l.Subject != "sluiced" {
		return errors.New("only sluiced tells of its heap allocations")
	}
	backend, err := l.standalone(ctx)
	if err != nil {
		return err
	}
	daemon := l.Sluiced
	// Without samples the heap profile is nothing but the counters, and costs fewer allocations than a look at all metrics.
	daemon.Env = append([]string{"SLUICE_ADMIN_PPROF=true", "GODEBUG=memprofilerate=0"}, daemon.Env...)
	p, err := l.rig.Sluiced(ctx, backend, daemon)
	if err != nil {
		return err
	}
	for _, pipeline := range []int{1, 16} {
		for _, operation := range []load.Operation{load.Get, load.Set} {
			w := l.workload(operation, pipeline)
			w.Warmup = max(w.Warmup, time.Second) // for buffers to find their size
			w.Duration = max(w.Duration/time.Duration(l.Rounds), time.Second)
			perCommand := make([]float64, l.Rounds)
			for round := range perCommand {
				if perCommand[round], err = l.allocationsPerCommand(ctx, p, w); err != nil {
					return err
				}
			}
			l.fact("allocs", l.Subject, allocsFact(operation, pipeline), "allocations", report.Median(perCommand))
		}
	}
	return nil
}

func (l *Lab) allocationsPerCommand(ctx context.Context, p *rig.Process, w load.Workload) (float64, error) {
	var counts [4]float64
	var failures []error
	look := func(i int) {
		value, err := mallocs(ctx, p.Admin)
		counts[i], failures = value, append(failures, err)
	}
	look(0)
	failures = append(failures, wait(ctx, w.Duration))
	look(1)
	result, err := l.Own.Run(ctx, p.Addr, w, load.Hooks{Start: func() { look(2) }, End: func() { look(3) }})
	if err := errors.Join(append(failures, err)...); err != nil {
		return 0, err
	}
	if result.Errors > 0 || result.Commands == 0 {
		return 0, fmt.Errorf("%d commands and %d errors: %s", result.Commands, result.Errors, result.FirstError)
	}
	extra := (counts[3] - counts[2]) - (counts[1] - counts[0])
	l.progress("  %s P=%d: %.0f allocations with %d commands, %.0f without a load", w.Operation, w.Pipeline, counts[3]-counts[2],
		result.Commands, counts[1]-counts[0])
	return max(0, extra) / float64(result.Commands), nil
}

// noAllocation is what still counts as none: the runtime's own few, spread over all commands.
const noAllocation = 0.001

func judgeAllocations(l *Lab) {
	for _, pipeline := range []int{1, 16} {
		for _, operation := range []load.Operation{load.Get, load.Set} {
			fact := allocsFact(operation, pipeline)
			value, err := l.factOf("allocs", fact)
			l.Report.Judge(report.AtMost("allocs", fact, noAllocation, "", value, err))
		}
	}
}

// mallocs reads how many heap allocations there have been, from what a heap profile in text form ends with.
func mallocs(ctx context.Context, admin string) (float64, error) {
	body, err := fetch(ctx, "http://"+admin+"/debug/pprof/heap?debug=1")
	if err != nil {
		return 0, err
	}
	defer body.Close()
	text, err := io.ReadAll(body) // to its end, so that the connection is used again
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "# Mallocs = "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("the heap profile does not tell of allocations")
}

// scrape reads one metric without labels from the admin port.
func scrape(ctx context.Context, admin, metric string) (float64, error) {
	body, err := fetch(ctx, "http://"+admin+"/metrics")
	if err != nil {
		return 0, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), " ")
		if found && name == metric {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("/metrics has no %s", metric), lines.Err())
}

func fetch(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	return response.Body, nil
}

// profile keeps CPU profiles of the daemon under load. Its numbers are not reported, profiling costs a little.
func profile(ctx context.Context, l *Lab) error {
	if l.Subject != "sluiced" {
		return errors.New("only sluiced can be profiled")
	}
	backend, err := l.standalone(ctx)
	if err != nil {
		return err
	}
	daemon := l.Sluiced
	daemon.Env = append([]string{"SLUICE_ADMIN_PPROF=true"}, daemon.Env...)
	p, err := l.rig.Sluiced(ctx, backend, daemon)
	if err != nil {
		return err
	}
	for _, pipeline := range []int{1, 16} {
		file := filepath.Join(l.Results, fmt.Sprintf("cpu-p%d.pprof", pipeline))
		if err := l.profileOnce(ctx, p, pipeline, file); err != nil {
			return err
		}
		l.Report.Note("CPU profile of GET at P=%d: %s", pipeline, file)
	}
	return nil
}

func (l *Lab) profileOnce(ctx context.Context, p *rig.Process, pipeline int, file string) error {
	seconds := max(1, int(l.Duration/time.Second))
	w := l.workload(load.Get, pipeline)
	w.Duration = time.Duration(seconds)*time.Second + time.Second // the profile must end first
	saved := make(chan error, 1)
	result, err := l.Own.Run(ctx, p.Addr, w, load.Hooks{Start: func() {
		go func() { saved <- saveProfile(ctx, p.Admin, seconds, file) }()
	}})
	if err != nil {
		return err
	}
	l.progress("  P=%d: %.0f ops/s while profiling", pipeline, result.OpsPerSecond)
	return <-saved
}

func saveProfile(ctx context.Context, admin string, seconds int, file string) error {
	body, err := fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, seconds))
	if err != nil {
		return err
	}
	defer body.Close()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, body)
	return errors.Join(err, out.Close())
}
