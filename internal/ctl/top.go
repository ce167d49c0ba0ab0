package ctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func (c *cli) top() *cobra.Command {
	var interval time.Duration
	var frames int
	var order string
	cmd := &cobra.Command{
		Use: "top", Short: "Watch tenants, nodes and commands by rate and latency",
		Long: "Watch tenants, nodes and classes of commands by rate and latency. Keys: s changes the order (rate, errors, latency, name),\n" +
			"space stops and goes on, q leaves. Where there is no terminal, or with --frames, the same is printed as text.",
		Example: "  proxyctl top\n  proxyctl top --sort latency --interval 5s\n  proxyctl top --frames 2 > now.txt", Args: arguments(0, 0),
	}
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "time between two looks")
	cmd.Flags().IntVar(&frames, "frames", 0, "print so many as text and end; 0: until q, or one without a terminal")
	cmd.Flags().StringVar(&order, "sort", "rate", "rate, errors, latency or name")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(topOrders, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		view := topView{server: "", style: c.outStyle()}
		if view.order = indexOf(topOrders, order); view.order < 0 {
			return usagef(cmd, "--sort %q: must be %s", order, strings.Join(topOrders, ", "))
		}
		if interval < 100*time.Millisecond {
			return usagef(cmd, "--interval %s: must be at least 100ms", interval)
		}
		client, err := c.connect()
		if err != nil {
			return err
		}
		view.server = client.Server()
		if frames == 0 && c.env.OutTerminal && c.env.InTerminal {
			return c.topLive(cmd.Context(), client, view, interval)
		}
		return c.topText(cmd.Context(), client, view, interval, max(frames, 1))
	}
	return cmd
}

// look is what top reads at once.
type look struct {
	status api.Status
	stats  api.Stats
	err    error
}

func takeLook(ctx context.Context, client *api.Client) (l look) {
	if l.status, l.err = client.Status(ctx); l.err == nil {
		l.stats, l.err = client.Stats(ctx)
	}
	return l
}

// topText prints frames. The first look is not shown: rates are differences.
func (c *cli) topText(ctx context.Context, client *api.Client, view topView, interval time.Duration, frames int) error {
	for n := 0; n <= frames; n++ {
		if n > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(interval):
			}
		}
		l := takeLook(ctx, client)
		if stopped(ctx, l.err) {
			return nil
		}
		if l.err != nil {
			return l.err
		}
		view.take(l)
		if n > 0 {
			fmt.Fprintln(c.env.Out, view.render())
		}
	}
	return nil
}

// topLive shows frames on the whole screen.
func (c *cli) topLive(ctx context.Context, client *api.Client, view topView, interval time.Duration) error {
	first := takeLook(ctx, client)
	if first.err != nil {
		return first.err
	}
	view.take(first)
	model := &topModel{ctx: ctx, client: client, view: view, interval: interval}
	_, err := tea.NewProgram(model, tea.WithContext(ctx), tea.WithInput(c.env.In), tea.WithOutput(c.env.Out)).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// topModel is top as bubbletea runs it.
type topModel struct {
	ctx      context.Context //nolint:containedctx // of the run that the program is
	client   *api.Client
	view     topView
	interval time.Duration
	stopped  bool
}

// tick says that it is time for a look.
type tick struct{}

func (m *topModel) wait() tea.Cmd {
	return tea.Tick(m.interval, func(time.Time) tea.Msg { return tick{} })
}

// Init implements tea.Model.
func (m *topModel) Init() tea.Cmd { return m.wait() }

// Update implements tea.Model.
func (m *topModel) Update(msg tea.Msg) (model tea.Model, next tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.view.width, m.view.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "s":
			m.view.order = (m.view.order + 1) % len(topOrders)
		case "space":
			m.stopped = !m.stopped
		}
	case tick:
		if m.stopped {
			next = m.wait()
			break
		}
		next = func() tea.Msg { return takeLook(m.ctx, m.client) }
	case look:
		m.view.take(msg)
		next = m.wait()
	}
	return m, next
}

// View implements tea.Model.
func (m *topModel) View() tea.View {
	view := tea.NewView(m.view.render())
	view.AltScreen = true
	return view
}
