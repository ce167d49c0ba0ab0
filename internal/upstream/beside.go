package upstream

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// besidePool is more than the one connection that is made: after as many failures as a pool has places, go-redis would go
// on trying on a goroutine of its own.
const besidePool = 8

// unreachableReply stands for the reply of a node that could not be asked.
var unreachableReply = []byte("-ERR upstream unavailable: a node cannot be reached; the command was not executed there\r\n") //nolint:gochecknoglobals // constant

// AskBeside asks every primary over a connection made for that and calls done with the replies, in RESP, in the order of
// the shards; done runs off the loops. It is for what must reach a node that is busy with a script: on the shared
// connections everything waits behind that script.
func (c *Cluster) AskBeside(protocol int, args []string, done func(replies [][]byte)) {
	c.spawn(func() {
		m := c.topo.Load()
		if m == nil {
			done(nil)
			return
		}
		replies := make([][]byte, len(m.Shards))
		asked := make(chan struct{})
		for i := range m.Shards {
			go func() { // ends within ConnectTimeout; waited for below
				replies[i] = c.askBeside(m.Shards[i].Primary.Addr, protocol, args)
				asked <- struct{}{}
			}()
		}
		for range m.Shards {
			<-asked
		}
		done(replies)
	})
}

// askBeside gives the node no name of the connection: a busy node refuses CLIENT SETNAME and so the whole handshake.
func (c *Cluster) askBeside(addr string, protocol int, args []string) []byte {
	ctx, cancel := context.WithTimeout(c.stopping, c.cfg.ConnectTimeout)
	defer cancel()
	if err := c.dials.Wait(ctx); err != nil {
		return unreachableReply
	}
	options := nodeOptions(&c.cfg, addr)
	options.ClientName, options.Protocol, options.PoolSize = "", protocol, besidePool
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialNode(ctx, &c.cfg, network, addr)
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	command := make([]any, len(args))
	for i, arg := range args {
		command[i] = arg
	}
	raw := redis.NewRawCmd(ctx, command...)
	if err := client.Process(ctx, raw); err != nil && len(raw.Val()) == 0 {
		return unreachableReply
	}
	return raw.Val()
}
