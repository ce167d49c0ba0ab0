// Package cgroup holds a process to a share of a processor by a Linux control group, version 1 or 2.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// period is how often the quota is renewed; the kernel's default.
const period = 100 * time.Millisecond

// Limiter makes groups under the group that this process is in.
type Limiter struct {
	parent  string // the folder under which groups are made
	version int
}

// Detect finds the CPU controller of this machine; the error says why no limit is possible.
func Detect() (*Limiter, error) { return detect("/") }

func detect(root string) (*Limiter, error) {
	mounts, err := os.ReadFile(filepath.Join(root, "proc/self/mounts"))
	if err != nil {
		return nil, fmt.Errorf("cannot find control groups: %w", err)
	}
	own, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil, fmt.Errorf("cannot find this process's control group: %w", err)
	}
	v1, v2 := cpuMounts(string(mounts))
	switch {
	case v1 != "":
		return newLimiter(root, v1, ownGroup(string(own), "cpu"), 1)
	case v2 != "":
		return newLimiter(root, v2, ownGroup(string(own), ""), 2)
	}
	return nil, errors.New("cannot limit the CPU: no cgroup file system with a cpu controller is mounted")
}

// cpuMounts returns where the version 1 cpu controller and the version 2 hierarchy are mounted, empty when they are not.
func cpuMounts(mounts string) (v1, v2 string) {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line) // device, folder, type, options, …
		if len(fields) < 4 {
			continue
		}
		switch fields[2] {
		case "cgroup":
			if slices.Contains(strings.Split(fields[3], ","), "cpu") {
				v1 = fields[1]
			}
		case "cgroup2":
			v2 = fields[1]
		}
	}
	return v1, v2
}

// ownGroup finds the path of this process's group in "id:controllers:path" lines; no controller means version 2.
func ownGroup(lines, controller string) string {
	for line := range strings.Lines(lines) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2]
		}
	}
	return "/"
}

func newLimiter(root, mount, own string, version int) (*Limiter, error) {
	l := &Limiter{parent: filepath.Join(root, mount, own), version: version}
	if _, err := os.Stat(l.parent); err != nil {
		// In a container the path is the host's, and the mount shows our own group as its root.
		l.parent = filepath.Join(root, mount)
	}
	if version == 2 {
		if err := l.enableCPU(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// enableCPU lets groups under the parent have a cpu controller. A version 2 group that holds processes cannot do so;
// then the next one above is tried, up to the root, which may hold processes.
func (l *Limiter) enableCPU() error {
	for {
		controllers, err := os.ReadFile(filepath.Join(l.parent, "cgroup.controllers"))
		if err != nil || !slices.Contains(strings.Fields(string(controllers)), "cpu") {
			return fmt.Errorf("cannot limit the CPU: %s has no cpu controller", l.parent)
		}
		control := filepath.Join(l.parent, "cgroup.subtree_control")
		enabled, err := os.ReadFile(control)
		if err == nil && slices.Contains(strings.Fields(string(enabled)), "cpu") {
			return nil
		}
		if err := os.WriteFile(control, []byte("+cpu"), 0o644); err == nil {
			return nil
		}
		above := filepath.Dir(l.parent)
		if _, statErr := os.Stat(filepath.Join(above, "cgroup.controllers")); statErr != nil {
			return fmt.Errorf("cannot limit the CPU: the cpu controller cannot be enabled in %s", control)
		}
		l.parent = above
	}
}

// Version is 1 or 2.
func (l *Limiter) Version() int { return l.version }

// Group is one control group with a CPU quota.
type Group struct {
	limiter *Limiter
	dir     string
}

// Hold makes a group of that name, gives it that share of one processor and moves the processes into it with all their
// threads. Remove must be called.
func (l *Limiter) Hold(name string, processors float64, pids ...int) (*Group, error) {
	g := &Group{limiter: l, dir: filepath.Join(l.parent, name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make a control group: %w", err)
	}
	if err := g.limit(processors); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot limit the CPU: %w", err), g.Remove())
	}
	for _, pid := range pids {
		if err := write(filepath.Join(g.dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot move process %d: %w", pid, err), g.Remove())
		}
	}
	return g, nil
}

func (g *Group) limit(processors float64) error {
	quota := strconv.FormatInt(time.Duration(processors*float64(period)).Microseconds(), 10)
	every := strconv.FormatInt(period.Microseconds(), 10)
	if g.limiter.version == 2 {
		return write(filepath.Join(g.dir, "cpu.max"), quota+" "+every)
	}
	return errors.Join(
		write(filepath.Join(g.dir, "cpu.cfs_period_us"), every),
		write(filepath.Join(g.dir, "cpu.cfs_quota_us"), quota),
	)
}

// Remove moves what is left in the group back and removes it.
func (g *Group) Remove() error {
	pids, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if err == nil {
		for _, pid := range strings.Fields(string(pids)) {
			// A process that has ended meanwhile is in no group any more.
			_ = write(filepath.Join(g.limiter.parent, "cgroup.procs"), pid)
		}
	}
	if err := os.Remove(g.dir); err != nil {
		return fmt.Errorf("cannot remove a control group: %w", err)
	}
	return nil
}

// write writes to an existing file of the kernel's; it must not be made where there is none.
func write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
