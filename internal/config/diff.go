package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Change is what differs between two configurations, by what a reload can do about it.
type Change struct {
	Clusters Names
	Tenants  Names
	// Certificates are addresses of listeners that are as before and whose
	// certificate files have new content.
	Certificates []string
	// Live are other changed keys that a running daemon can apply.
	Live []string
	// Restart are changed keys that take effect only when the daemon starts again.
	Restart []string
}

// Names of clusters or tenants that differ, each list in alphabetical order.
type Names struct{ Added, Removed, Changed []string }

// None says that the names are the same and stand for the same.
func (n Names) None() bool { return len(n.Added)+len(n.Removed)+len(n.Changed) == 0 }

// None says that there is no difference.
func (c Change) None() bool {
	return c.Clusters.None() && c.Tenants.None() && len(c.Certificates)+len(c.Live)+len(c.Restart) == 0
}

// Diff compares a running configuration with a new one. A tenant counts as
// changed by its own keys and secrets, not by its cluster's.
func Diff(running, wanted *Config) Change {
	change := Change{
		Clusters: diffNames(running.Clusters, wanted.Clusters, func(c Cluster) string { return c.Name }),
		Tenants:  diffNames(running.Tenants, wanted.Tenants, func(t Tenant) string { return t.Name }),
	}
	if reflect.DeepEqual(fixed(running.Listeners), fixed(wanted.Listeners)) {
		change.diffAdvertise(running.Listeners, wanted.Listeners)
		for i, l := range wanted.Listeners {
			if !reflect.DeepEqual(l.TLS, running.Listeners[i].TLS) {
				change.Certificates = append(change.Certificates, l.Address)
			}
		}
	} else {
		change.Restart = append(change.Restart, "listeners")
	}
	if a, b := running.Admin.TLS, wanted.Admin.TLS; a != nil && b != nil && a.Digest != b.Digest {
		change.Certificates = append(change.Certificates, wanted.Admin.Address)
	}
	before, after := reflect.ValueOf(*running), reflect.ValueOf(*wanted)
	for _, f := range fieldsOf(before.Type()) {
		if f.shape() != sectionList {
			change.diffKey(f, before.Field(f.index), after.Field(f.index), f.key)
		}
	}
	return change
}

func (c *Change) diffKey(f field, before, after reflect.Value, path string) {
	switch {
	case reflect.DeepEqual(before.Interface(), after.Interface()):
	case path == "admin.tls" && sameFiles(before.Interface(), after.Interface()):
	case f.shape() == section && f.typ.Kind() == reflect.Struct:
		for _, below := range fieldsOf(f.elem()) {
			c.diffKey(below, before.Field(below.index), after.Field(below.index), path+"."+below.key)
		}
	case slices.Contains([]string{"log.level", "drain_timeout", "admin.tokens"}, path):
		c.Live = append(c.Live, path)
	default:
		c.Restart = append(c.Restart, path)
	}
}

// sameFiles says that both are the same but for the files' content.
func sameFiles(before, after any) bool {
	a, b := before.(*ListenerTLS), after.(*ListenerTLS)
	return a != nil && b != nil && a.Cert == b.Cert && a.Key == b.Key && a.ClientCA == b.ClientCA
}

func diffNames[T any](before, after []T, name func(T) string) Names {
	var n Names
	gone := make(map[string]T, len(before))
	for _, item := range before {
		gone[name(item)] = item
	}
	for _, item := range after {
		old, had := gone[name(item)]
		delete(gone, name(item))
		switch {
		case !had:
			n.Added = append(n.Added, name(item))
		case !reflect.DeepEqual(old, item):
			n.Changed = append(n.Changed, name(item))
		}
	}
	slices.Sort(n.Added)
	slices.Sort(n.Changed)
	n.Removed = slices.Sorted(maps.Keys(gone))
	return n
}

// diffAdvertise notes what listeners that are as before tell clients anew.
func (c *Change) diffAdvertise(running, wanted []Listener) {
	for i, l := range wanted {
		before := running[i]
		if !slices.Equal(l.Advertise, before.Advertise) || l.AdvertiseSelf != before.AdvertiseSelf {
			c.Live = append(c.Live, fmt.Sprintf("listeners[%d].advertise", i))
		}
	}
}

// fixed is what of the listeners only a restart can change.
func fixed(listeners []Listener) []Listener {
	bare := slices.Clone(listeners)
	for i, l := range bare {
		bare[i].Advertise, bare[i].AdvertiseSelf = nil, ""
		if l.TLS != nil {
			files := *l.TLS
			files.Digest = ""
			bare[i].TLS = &files
		}
	}
	return bare
}
