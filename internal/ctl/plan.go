package ctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// step is one change that apply would make.
type step struct {
	kind          manager
	name, from    string
	action        string // create, update, delete or none
	entity        any
	version       int
	before, after string // as documents
	sessions      int
	effects       []string
	later         string // why the server checks it only when it is applied
}

func (s *step) label() string { return s.kind.word() + " " + printable(s.name) }

// planner compares documents with what is registered. The server judges every change; nothing is written.
type planner struct {
	c        *cli
	client   *api.Client
	now      map[api.Kind]map[string]registered
	wanted   map[api.Kind]map[string]bool
	created  map[api.Kind]map[string]bool // of the steps so far
	pruned   map[api.Kind]bool            // kinds of which something goes
	moved    bool                         // some tenant goes to another cluster
	problems []error
}

// planAll returns the steps in the order in which they are made: what others depend on first, deletions last and in
// the reverse order.
func (c *cli) planAll(ctx context.Context, client *api.Client, documents []document, prune bool) ([]step, error) {
	p := &planner{
		c: c, client: client, now: make(map[api.Kind]map[string]registered),
		wanted: make(map[api.Kind]map[string]bool), created: make(map[api.Kind]map[string]bool), pruned: make(map[api.Kind]bool),
	}
	w := c.working("comparing with what is registered", len(documents))
	defer w.done()
	managers := c.managers()
	for _, m := range managers {
		of := slices.DeleteFunc(slices.Clone(documents), func(d document) bool { return d.kind.title() != m.title() })
		if len(of) == 0 {
			continue
		}
		p.wanted[m.title()], p.created[m.title()] = make(map[string]bool), make(map[string]bool)
		for _, d := range of {
			p.wanted[m.title()][d.name] = true
		}
		var err error
		if p.now[m.title()], err = m.existing(ctx, client); err != nil {
			return nil, err
		}
	}
	var steps []step
	for _, m := range managers {
		for _, d := range documents {
			if d.kind.title() != m.title() {
				continue
			}
			if s, ok := p.write(ctx, d); ok {
				steps = append(steps, s)
			}
			w.step()
		}
	}
	if prune {
		slices.Reverse(managers)
		steps = append(steps, p.prune(ctx, managers)...)
	}
	return steps, errors.Join(p.problems...)
}

func (p *planner) write(ctx context.Context, d document) (s step, ok bool) {
	s = step{kind: d.kind, name: d.name, from: d.from, entity: d.entity, action: "create"}
	old, exists := p.now[d.kind.title()][d.name]
	if exists && old.meta.Source == api.SourceFile {
		p.problems = append(p.problems, fmt.Errorf("%s: %s is declared in the configuration file of the proxy; change it there", d.from, s.label()))
		return s, false
	}
	if exists {
		s.version = old.meta.Version
	}
	plan, err := p.judge(ctx, d, &s)
	if err == nil && exists {
		err = s.render(d.kind, old.entity, plan.Diff, d.entity)
	} else if err == nil {
		err = s.render(d.kind, nil, plan.Diff, d.entity)
	}
	if err != nil {
		p.problems = append(p.problems, fmt.Errorf("%s: %s: %w", d.from, s.label(), err))
		return s, false
	}
	s.sessions, s.effects = plan.Sessions, plan.Effects
	if plan.Action != "" {
		s.action = plan.Action
	}
	if s.action == "create" {
		p.created[d.kind.title()][d.name] = true
	}
	if s.action == "update" && d.kind.title() == api.KindTenant {
		p.moved = p.moved || slices.ContainsFunc(plan.Diff, func(e api.Edit) bool { return e.Field == "cluster" })
	}
	return s, true
}

// judge asks the server. What depends on an entity that these documents create is checked when it is applied.
func (p *planner) judge(ctx context.Context, d document, s *step) (api.Plan, error) {
	if user, isUser := d.entity.(api.User); isUser && p.created[api.KindTenant][user.Tenant] {
		s.later = fmt.Sprintf("checked when it is applied: tenant %s is created first", user.Tenant)
		return api.Plan{}, nil
	}
	plan, err := d.kind.planWrite(ctx, p.client, d.name, d.entity, s.version)
	tenant, isTenant := d.entity.(api.Tenant)
	if !isTenant || !p.created[api.KindCluster][tenant.Cluster] {
		return plan, err
	}
	var problem *api.Problem
	if !errors.As(err, &problem) || len(problem.Errors) == 0 {
		return plan, err
	}
	rest := slices.DeleteFunc(slices.Clone(problem.Errors), func(f api.ProblemField) bool { return f.Location == "body.cluster" })
	if len(rest) > 0 {
		problem.Errors = rest
		return plan, problem
	}
	s.later = fmt.Sprintf("checked when it is applied: cluster %s is created first", tenant.Cluster)
	if s.version != 0 {
		s.action = "update"
	}
	return api.Plan{}, nil
}

// render words an entity before and after. The differences are the server's: it knows what defaults are and what a
// secret that is not given means.
func (s *step) render(k manager, old any, diff []api.Edit, wanted any) (err error) {
	none := func(api.Edit) any { return nil }
	switch {
	case s.later != "" && old == nil:
		s.after, err = k.text(hideSecrets(wanted), nil, none)
		return err
	case s.later != "":
		if s.before, err = k.text(old, nil, none); err == nil {
			s.after, err = k.text(hideSecrets(wanted), nil, none)
		}
		return err
	case old == nil:
		s.after, err = k.text(hideSecrets(wanted), diff, func(e api.Edit) any { return e.New })
		return err
	}
	if s.before, err = k.text(old, diff, func(e api.Edit) any { return e.Old }); err == nil {
		s.after, err = k.text(old, diff, func(e api.Edit) any { return e.New })
	}
	return err
}

const notShown = "(not shown)"

// hideSecrets is an entity of a document as it may be shown.
func hideSecrets(entity any) any {
	switch x := entity.(type) {
	case api.Cluster:
		if x.Auth != nil && x.Auth.Password != "" {
			auth := *x.Auth
			auth.Password = notShown
			x.Auth = &auth
		}
		return x
	case api.User:
		for _, secret := range []*string{&x.Password, &x.SHA256, &x.Argon2id} {
			if *secret != "" {
				*secret = notShown
			}
		}
		return x
	}
	return entity
}

// prune finds what is in the store and in no document, of the kinds that the documents have.
func (p *planner) prune(ctx context.Context, managers []manager) (steps []step) {
	me := ""
	if len(p.wanted[api.KindToken]) > 0 {
		if who, err := p.client.WhoAmI(ctx); err == nil {
			me = who.Name
		}
	}
	for _, m := range managers {
		names := make([]string, 0, len(p.now[m.title()]))
		for name, r := range p.now[m.title()] {
			if !p.wanted[m.title()][name] && r.meta.Source == api.SourceStore && (m.title() != api.KindToken || name != me) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if s, ok := p.remove(ctx, m, name); ok {
				steps = append(steps, s)
			}
		}
	}
	return steps
}

func (p *planner) remove(ctx context.Context, m manager, name string) (s step, ok bool) {
	old := p.now[m.title()][name]
	s = step{kind: m, name: name, action: "delete", version: old.meta.Version}
	plan, err := m.planDelete(ctx, p.client, name, old.meta.Version)
	if p.mayBeFreed(m.title(), err) {
		s.later, err = "checked when it is applied: what uses it goes first", nil
	}
	if err == nil {
		s.before, err = m.text(old.entity, nil, func(api.Edit) any { return nil })
	}
	if err != nil {
		p.problems = append(p.problems, fmt.Errorf("--prune: %s: %w", s.label(), err))
		return s, false
	}
	s.sessions, s.effects = plan.Sessions, plan.Effects
	p.pruned[m.title()] = true
	return s, true
}

// mayBeFreed reports whether what stands in the way of a deletion may be gone when it is its turn.
func (p *planner) mayBeFreed(kind api.Kind, err error) bool {
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Status != http.StatusConflict {
		return false
	}
	return kind == api.KindTenant && p.pruned[api.KindUser] || kind == api.KindCluster && (p.pruned[api.KindTenant] || p.moved)
}

// diffText is a step as lines of a unified diff.
func (s *step) diffText(st style) string {
	name := s.kind.word() + "/" + s.name
	from, to := "registered/"+name, "documents/"+name
	switch s.action {
	case "create":
		from = "/dev/null"
	case "delete":
		to = "/dev/null"
	}
	if s.version != 0 {
		from += fmt.Sprintf(" (version %d)", s.version)
	}
	var b strings.Builder
	for line := range strings.Lines(udiff.Unified(printable(from), printable(to), s.before, s.after)) {
		line = printable(strings.TrimSuffix(line, "\n"))
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			line = st.bold(line)
		case strings.HasPrefix(line, "@@"):
			line = st.cyan(line)
		case strings.HasPrefix(line, "-"):
			line = st.red(line)
		case strings.HasPrefix(line, "+"):
			line = st.green(line)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
