package measure

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Machine is what a report says of where it was made.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
	System string `json:"system"`
	Go     string `json:"go"`
}

// Machine describes this machine, as far as the kernel tells.
func (p Proc) Machine() Machine {
	return Machine{
		CPU:    p.firstValue("cpuinfo", "model name", runtime.GOARCH),
		Cores:  runtime.NumCPU(),
		Memory: p.firstValue("meminfo", "MemTotal", "unknown"),
		Kernel: p.kernel(),
		System: runtime.GOOS + "/" + runtime.GOARCH,
		Go:     runtime.Version(),
	}
}

// firstValue returns what follows the colon of the first line with that label.
func (p Proc) firstValue(file, label, otherwise string) string {
	data, err := os.ReadFile(filepath.Join(string(p), file))
	if err != nil {
		return otherwise
	}
	for line := range strings.Lines(string(data)) {
		name, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(name) == label {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}

func (p Proc) kernel() string {
	data, err := os.ReadFile(filepath.Join(string(p), "sys", "kernel", "osrelease"))
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}
