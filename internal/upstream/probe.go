package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/topology"
)

// Probed is what an attempt to reach a cluster found.
type Probed struct {
	Server  string // name and version
	Nodes   int
	Covered int // slots
	Notes   []string
}

// Probe dials the nodes of a cluster that need not be in use, and looks whether they are what cfg says. The error tells what
// is wrong and what to look at, without an address.
func Probe(ctx context.Context, cfg Config) (Probed, error) {
	cfg.setDefaults()
	muteClients()
	var found Probed
	var first error
	reached := false
	for i, addr := range cfg.Addresses {
		err := probeNode(ctx, &cfg, addr, reached, &found)
		if err == nil {
			reached = true
			continue
		}
		err = fmt.Errorf("addresses[%d]: %w", i, err)
		if first == nil {
			first = err
		}
		found.Notes = append(found.Notes, err.Error())
	}
	if reached { // one node is enough to find the others
		return found, nil
	}
	found.Notes = nil
	return found, first
}

func probeNode(ctx context.Context, cfg *Config, addr string, known bool, found *Probed) error {
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout+time.Second)
	defer cancel()
	options := nodeOptions(cfg, addr)
	options.Protocol, options.PoolSize = 2, besidePool
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialNode(ctx, cfg, network, addr)
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	if err := client.Ping(ctx).Err(); err != nil {
		return explainProbe(err)
	}
	text, err := client.Info(ctx).Result()
	if err != nil {
		found.Notes = append(found.Notes, hideAddress("INFO cannot be asked", err).Error())
	}
	if !known {
		found.Server = serverOf(text)
	}
	if infoField(text, "role") == "slave" && cfg.Kind == Standalone {
		found.Notes = append(found.Notes, "the node is a replica: writes will be refused")
	}
	return probeKind(ctx, cfg, client, addr, infoField(text, "cluster_enabled"), found)
}

func probeKind(ctx context.Context, cfg *Config, client *redis.Client, addr, enabled string, found *Probed) error {
	if cfg.Kind == Standalone {
		if enabled == "1" {
			return errors.New("the node is part of a Redis Cluster; register it with kind cluster")
		}
		found.Nodes, found.Covered = 1, topology.SlotCount
		return nil
	}
	if enabled == "0" {
		return errors.New("the node is not part of a Redis Cluster; register it with kind standalone, or start it with cluster-enabled yes")
	}
	from, ok := topology.EndpointAt(addr, cfg.TLS != nil)
	if !ok {
		return errors.New("the address is not host:port")
	}
	reply, err := client.Do(ctx, "CLUSTER", "SHARDS").Result()
	if err == nil {
		return found.take(topology.ParseShards(reply, from))
	}
	if reply, err = client.Do(ctx, "CLUSTER", "SLOTS").Result(); err != nil {
		return hideAddress("cannot read the topology", err)
	}
	return found.take(topology.ParseSlots(reply, from))
}

func (f *Probed) take(m *topology.Map, err error) error {
	if err != nil {
		return err
	}
	f.Nodes, f.Covered = len(m.Nodes), m.Covered()
	if f.Covered < topology.SlotCount {
		return fmt.Errorf("only %d of %d slots have a primary; look at CLUSTER INFO on the nodes", f.Covered, topology.SlotCount)
	}
	return nil
}

// explainProbe tells what a failure means.
func explainProbe(err error) error {
	text := err.Error()
	switch {
	case strings.HasPrefix(text, "NOAUTH"):
		return errors.New("the node asks for a password and none is given: set auth")
	case strings.HasPrefix(text, "WRONGPASS"), strings.Contains(text, "invalid password"):
		return errors.New("the node does not take this user name and password: look at auth")
	case strings.HasPrefix(text, "NOPERM"):
		return errors.New("the user may not do what the proxy needs (PING, INFO, CLUSTER): look at its ACL")
	case strings.Contains(text, "AUTH <password> called without any password configured"):
		return errors.New("the node has no password and one is given: leave auth out")
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return errors.New("the node does not speak TLS at this port: leave tls out, or use its TLS port")
	}
	return hideAddress("cannot be reached", err)
}

// serverOf is the name and version that INFO tells.
func serverOf(info string) string {
	for _, server := range [][2]string{{"Valkey", "valkey_version"}, {"Dragonfly", "dragonfly_version"}, {"Redis", "redis_version"}} {
		if version := infoField(info, server[1]); version != "" {
			return server[0] + " " + strings.TrimPrefix(version, "df-")
		}
	}
	return ""
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
