package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sluiceproxy/sluice/bench/load"
)

// Redis starts a redis-server without persistence.
func (r *Rig) Redis(ctx context.Context) (*Process, error) {
	return r.start(ctx, redisProgram(1, nil))
}

func redisProgram(ports int, more func(ports []int) []string) program {
	return program{
		name: "redis-server", path: "redis-server", ports: ports, ready: answersPing,
		args: func(dir string, ports []int) ([]string, error) {
			args := []string{
				"--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--dir", dir,
				"--save", "", "--appendonly", "no", "--daemonize", "no", "--maxclients", "20000",
			}
			if more != nil {
				args = append(args, more(ports)...)
			}
			return args, nil
		},
	}
}

// clusterSlots is the number of hash slots of a Redis Cluster.
const clusterSlots = 16384

// RedisCluster starts a Redis Cluster of primaries without replicas and returns when all of them agree on it.
func (r *Rig) RedisCluster(ctx context.Context, primaries int) ([]*Process, error) {
	nodes := make([]*Process, primaries)
	for i := range nodes {
		node, err := r.start(ctx, redisProgram(2, func(ports []int) []string {
			return []string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(ports[1])}
		}))
		if err != nil {
			return nil, err
		}
		nodes[i] = node
	}
	if err := joinCluster(ctx, nodes); err != nil {
		return nil, fmt.Errorf("cannot form a cluster: %w", err)
	}
	return nodes, nil
}

func joinCluster(ctx context.Context, nodes []*Process) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	clients := make([]*redis.Client, len(nodes))
	for i, node := range nodes {
		clients[i] = connect(node.Addr)
	}
	defer closeAll(clients)
	busPorts := make([]string, len(nodes))
	for i, client := range clients {
		first, last := i*clusterSlots/len(nodes), (i+1)*clusterSlots/len(nodes)-1
		setting, err := client.ConfigGet(ctx, "cluster-port").Result()
		if err == nil {
			busPorts[i] = setting["cluster-port"]
			err = errors.Join(
				client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(),
				client.ClusterAddSlotsRange(ctx, first, last).Err(),
			)
		}
		if err != nil {
			return err
		}
	}
	host, port, err := net.SplitHostPort(nodes[0].Addr)
	if err != nil {
		return err
	}
	for _, client := range clients[1:] {
		if err := client.Do(ctx, "CLUSTER", "MEET", host, port, busPorts[0]).Err(); err != nil {
			return err
		}
	}
	for _, client := range clients {
		if err := awaitCluster(ctx, client, len(nodes)); err != nil {
			return err
		}
	}
	return nil
}

func closeAll[C io.Closer](open []C) {
	for _, c := range open {
		_ = c.Close()
	}
}

// awaitCluster returns when the node sees the whole cluster and every slot served.
func awaitCluster(ctx context.Context, client *redis.Client, size int) error {
	for {
		info, err := client.ClusterInfo(ctx).Result()
		if err == nil && strings.Contains(info, "cluster_state:ok") &&
			strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r\n", size)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not see %d nodes", client.Options().Addr, size), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func connect(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, DisableIdentity: true, PoolSize: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Fill writes the keys that a workload may ask for into the backends, one or the primaries of a cluster.
func Fill(ctx context.Context, backends []*Process, keys, valueSize int) error {
	var client redis.UniversalClient = connect(backends[0].Addr)
	if len(backends) > 1 {
		addrs := make([]string, len(backends))
		for i, b := range backends {
			addrs[i] = b.Addr
		}
		client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, Protocol: 2, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
	}
	defer closeAll([]io.Closer{client})
	value := load.Value(valueSize)
	batch := max(1, min(1000, (4<<20)/(valueSize+1)))
	for from := 0; from < keys; from += batch {
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for key := from; key < min(from+batch, keys); key++ {
				pipe.Set(ctx, load.KeyName(key), value, 0)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("cannot fill %s: %w", backends[0].Addr, err)
		}
	}
	return nil
}

// Installed tells whether a program is in PATH.
func Installed(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// Configure changes a setting of a running redis-server.
func Configure(ctx context.Context, p *Process, setting, value string) error {
	client := connect(p.Addr)
	defer client.Close()
	if err := client.ConfigSet(ctx, setting, value).Err(); err != nil {
		return fmt.Errorf("cannot set %s of %s: %w", setting, p.Addr, err)
	}
	return nil
}
