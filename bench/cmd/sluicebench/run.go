package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/measure"
	"github.com/sluiceproxy/sluice/bench/report"
	"github.com/sluiceproxy/sluice/bench/rig"
	"github.com/sluiceproxy/sluice/bench/scenario"
)

// settings are the flags of a run as they were given.
type settings struct {
	scenario.Options
	scenarios []string
	seconds   float64
	generator string
	quick     bool
	strict    bool
	list      bool
}

// runCommand is the benchmark itself.
func runCommand() *cobra.Command {
	s := settings{}
	command := &cobra.Command{
		Use:           "sluicebench",
		Short:         "Measure sluiced against direct connections, the floor and other proxies",
		Long:          "Run scenarios, print what they measured and which bars are reached, and save a report.",
		Args:          cobra.NoArgs,
		RunE:          func(command *cobra.Command, _ []string) error { return s.run(command) },
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := command.Flags()
	flags.StringSliceVar(&s.scenarios, "scenario", nil, "scenarios to run; all but the extra ones by default (see --list)")
	flags.BoolVar(&s.list, "list", false, "list the scenarios and end")
	flags.IntVar(&s.Rounds, "rounds", 3, "rounds of every workload; targets take turns, medians are reported; 12 with --before")
	flags.Float64Var(&s.seconds, "seconds", 3, "measured seconds of a round; 1 with --before")
	flags.BoolVar(&s.quick, "quick", false, "see that everything works: one round of one second, small sizes, short waits")
	flags.StringVar(&s.Subject, "subject", "sluiced", "the proxy that the bars are for: sluiced, twemproxy, predixy, haproxy")
	flags.StringSliceVar(&s.Peers, "peers", []string{"twemproxy", "predixy"}, "other proxies to compare with, where installed")
	flags.StringVar(&s.Before, "before", "", "an older built daemon: the target \"before\" of p1, p16, one and cluster")
	flags.StringSliceVar(&s.Only, "only", nil, "compare only these targets, such as sluiced,before; all by default")
	flags.StringVar(&s.generator, "generator", "auto", "own, memtier, or auto: memtier_benchmark where it is installed")
	flags.StringVar(&s.Sluiced.Path, "sluiced", "", "a built daemon; without it, it is built from ./cmd/sluiced")
	flags.StringArrayVar(&s.Sluiced.Args, "sluiced-arg", nil, "one more argument for sluiced serve; may be repeated")
	flags.StringArrayVar(&s.Sluiced.Env, "sluiced-env", nil, "one more NAME=value in its environment; may be repeated")
	flags.Float64Var(&s.Rate, "rate", 20_000, "commands per second of the open loop")
	flags.Float64Var(&s.BackendCPU, "backend-cpu", 0.1, "share of a processor for the starved backend")
	flags.IntVar(&s.IdleConnections, "idle-connections", 10_000, "idle connections to hold")
	flags.StringVar(&s.Results, "results", "", "folder for reports; bench/results by default")
	flags.BoolVar(&s.strict, "strict", false, "fail when a bar is not reached")
	return command
}

func (s *settings) run(command *cobra.Command) error {
	selected, err := scenario.Select(s.scenarios)
	if err != nil {
		return err
	}
	out := command.OutOrStdout()
	if s.list {
		for _, one := range scenario.All() {
			fmt.Fprintf(out, "%-10s%s\n", one.Name, one.Title)
		}
		return nil
	}
	s.moreRounds(command.Flags())
	if err := s.complete(); err != nil {
		return err
	}
	if err := raiseFileLimit(); err != nil {
		return err
	}
	ctx := command.Context()
	if s.Subject == "sluiced" && s.Sluiced.Path == "" {
		dir, err := os.MkdirTemp("", "sluicebench-build-")
		if err != nil {
			return fmt.Errorf("cannot make a folder for the daemon: %w", err)
		}
		defer os.RemoveAll(dir)
		s.Sluiced.Path = filepath.Join(dir, "sluiced")
		if err := rig.BuildSluiced(ctx, s.Module, s.Sluiced.Path); err != nil {
			return err
		}
	}
	lab, err := s.lab(command)
	if err != nil {
		return err
	}
	failed := lab.Run(ctx, selected)
	fmt.Fprintf(out, "\n%s", lab.Report.Tables())
	path, err := lab.Report.Save(s.Results)
	if err == nil {
		fmt.Fprintf(out, "\nThe report is in %s, with .json and .svg beside it.\n", path)
	}
	if s.strict && lab.Report.Missed() > 0 {
		err = errors.Join(err, fmt.Errorf("%d bars are not reached", lab.Report.Missed()))
	}
	return errors.Join(failed, err)
}

// moreRounds chooses many short rounds where two versions are compared: they differ by less than what a round is off by,
// and the median of many ratios is closer than that of few.
func (s *settings) moreRounds(flags *pflag.FlagSet) {
	if s.Before == "" {
		return
	}
	if !flags.Changed("rounds") {
		s.Rounds = 12
	}
	if !flags.Changed("seconds") {
		s.seconds = 1
	}
}

// complete fills in what follows from the flags.
func (s *settings) complete() (err error) {
	if s.Module, err = moduleFolder(); err != nil {
		return err
	}
	if s.Results == "" {
		s.Results = filepath.Join(s.Module, "bench", "results")
	}
	for _, path := range []*string{&s.Sluiced.Path, &s.Before} {
		if *path == "" {
			continue
		}
		// It is started in a folder of its own.
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
		if _, err := os.Stat(*path); err != nil {
			return fmt.Errorf("cannot use the built daemon: %w", err)
		}
	}
	s.Warmup, s.HugeBytes = 300*time.Millisecond, 512<<20
	s.IdleSettle, s.LargeSettle = 2*time.Second, 30*time.Second
	if s.quick {
		s.Rounds, s.seconds, s.Warmup, s.HugeBytes = 1, 1, 100*time.Millisecond, 128<<20
		s.IdleSettle, s.LargeSettle, s.IdleConnections = 500*time.Millisecond, 2*time.Second, min(s.IdleConnections, 2000)
	}
	s.Duration = time.Duration(s.seconds * float64(time.Second))
	if s.Rounds < 1 || s.Duration <= 0 {
		return errors.New("--rounds and --seconds must be positive")
	}
	return nil
}

func (s *settings) lab(command *cobra.Command) (*scenario.Lab, error) {
	driver, err := s.driver()
	if err != nil {
		return nil, err
	}
	return &scenario.Lab{
		Options: s.Options, Driver: driver, Own: load.Generator{}, Progress: command.ErrOrStderr(),
		Report: &report.Report{
			Date: time.Now(), Commit: commit(command, s.Module), Machine: measure.DefaultProc.Machine(), Generator: driver.Name(),
			Settings: report.Settings{
				Subject: s.Subject, Peers: s.Peers, Rounds: s.Rounds, Seconds: s.seconds, Quick: s.quick,
				Command: "sluicebench " + strings.Join(os.Args[1:], " "),
			},
		},
	}, nil
}

func (s *settings) driver() (load.Driver, error) {
	memtier, installed := load.FindMemtier()
	switch {
	case s.generator == "own" || s.generator == "auto" && !installed:
		return load.Generator{}, nil
	case s.generator != "auto" && s.generator != "memtier":
		return nil, fmt.Errorf("--generator %s is none of auto, own, memtier", s.generator)
	case !installed:
		return nil, errors.New("--generator memtier: memtier_benchmark is not in PATH")
	}
	return memtier, nil
}

// moduleFolder finds the module that this command belongs to above the working directory.
func moduleFolder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), "module github.com/sluiceproxy/sluice\n") {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("cannot find the folder of the project: start sluicebench within it")
		}
		dir = above
	}
}

// commit names the checked out commit, marked when files differ from it.
func commit(command *cobra.Command, module string) string {
	git := exec.CommandContext(command.Context(), "git", "-C", module, "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*")
	name, err := git.Output()
	if err != nil {
		return "none"
	}
	return strings.TrimSpace(string(name))
}
