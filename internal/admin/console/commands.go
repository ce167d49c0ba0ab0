package console

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"
)

// do answers a command. PROXY is the Service's; the others are what clients send to get to know a server.
func (c *conn) do(args []string) {
	name, rest := strings.ToLower(args[0]), args[1:]
	least, most, known := arity(name)
	switch {
	case !known:
		c.unknown(args)
		return
	case len(rest) < least || len(rest) > most:
		c.fail("ERR wrong number of arguments for '" + name + "' command")
		return
	case c.secret == "" && !openToStrangers(name):
		c.fail(string(NoAuth))
		return
	}
	switch name {
	case "proxy":
		c.proxy(rest)
	case "auth":
		c.auth(rest[len(rest)-1])
	case "hello":
		c.hello(rest)
	case "ping":
		c.ping(rest)
	case "echo":
		c.out = redcon.AppendBulkString(c.out, rest[0])
	case "client":
		c.client(strings.ToLower(rest[0]), rest[1:])
	case "command":
		c.command(rest)
	case "info":
		c.info()
	case "select":
		c.selectDatabase(rest[0])
	case "reset":
		c.protocol, c.name = 2, ""
		c.logout()
		c.out = redcon.AppendString(c.out, "RESET")
	case "quit":
		c.out = redcon.AppendOK(c.out)
		c.ending = true
	}
}

// arity is how many arguments a command takes.
func arity(name string) (least, most int, known bool) {
	switch name {
	case "proxy", "client":
		return 1, argsMax, true
	case "auth":
		return 1, 2, true
	case "echo", "select":
		return 1, 1, true
	case "ping":
		return 0, 1, true
	case "hello", "command", "info":
		return 0, argsMax, true
	case "reset", "quit":
		return 0, 0, true
	}
	return 0, 0, false
}

// openToStrangers tells of the commands that need no token. PROXY's Service refuses by itself, and notes whom.
func openToStrangers(name string) bool {
	return name == "auth" || name == "hello" || name == "quit" || name == "reset" || name == "proxy"
}

func (c *conn) unknown(args []string) {
	if c.secret == "" {
		c.fail(string(NoAuth))
		return
	}
	text := "ERR unknown command " + quoted(args[0]) + ", with args beginning with: "
	for _, arg := range args[1:] {
		if len(text) > 256 {
			break
		}
		text += quoted(arg) + " "
	}
	c.fail(text)
}

func (c *conn) proxy(args []string) {
	answer, err := c.server.options.Service.Proxy(c.server.ended, c.address, c.secret, args)
	switch help, isHelp := answer.(Help); {
	case err != nil:
		if errors.Is(err, NoAuth) {
			c.logout()
		}
		c.fail(err.Error())
	case isHelp:
		c.out = appendHelp(c.out, help)
	case answer == nil:
		c.out = redcon.AppendOK(c.out)
	default:
		c.value(answer)
	}
}

func (c *conn) value(v any) {
	before := len(c.out)
	var err error
	if c.out, err = appendValue(c.out, c.protocol, v); err != nil {
		c.out = c.out[:before]
		c.fail("ERR " + err.Error())
	}
}

// login takes a token; a user's name is not asked for. Who fails stays who he was, as in Redis.
func (c *conn) login(secret string) error {
	if err := c.server.options.Service.Login(c.address, secret); err != nil {
		return err
	}
	c.secret = secret
	c.server.known(c)
	return nil
}

// logout forgets the token. The connection has the time of a new one to give another.
func (c *conn) logout() { c.secret, c.since = "", time.Now() }

func (c *conn) auth(secret string) {
	if err := c.login(secret); err != nil {
		c.fail(err.Error())
		return
	}
	c.out = redcon.AppendOK(c.out)
}

// hello handles HELLO [version [AUTH user token] [SETNAME name]].
func (c *conn) hello(args []string) {
	protocol, name := c.protocol, c.name
	if len(args) > 0 {
		version, err := strconv.Atoi(args[0])
		if err != nil {
			c.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if version != 2 && version != 3 {
			c.fail("NOPROTO unsupported protocol version")
			return
		}
		protocol = version
	}
	for i := 1; i < len(args); i++ {
		switch more := len(args) - i - 1; {
		case strings.EqualFold(args[i], "auth") && more >= 2:
			if err := c.login(args[i+2]); err != nil {
				c.fail(err.Error())
				return
			}
			i += 2
		case strings.EqualFold(args[i], "setname") && more >= 1:
			name = args[i+1]
			i++
		default:
			c.fail("ERR Syntax error in HELLO option " + quoted(args[i]))
			return
		}
	}
	switch {
	case c.secret == "":
		c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <token> option can be used, with a token of the admin API and any user")
	case !validName(name):
		c.fail(invalidName)
	default:
		c.protocol, c.name = protocol, name
		c.greet()
	}
}

const invalidName = "ERR Client names cannot contain spaces, newlines or special characters."

func validName(name string) bool {
	return len(name) <= 256 && strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

func (c *conn) greet() {
	b := appendMapHeader(c.out, c.protocol, 7)
	for _, field := range [][2]string{{"server", "sluice"}, {"version", c.server.options.Version}, {"mode", "standalone"}, {"role", "master"}} {
		b = redcon.AppendBulkString(redcon.AppendBulkString(b, field[0]), field[1])
	}
	b = redcon.AppendInt(redcon.AppendBulkString(b, "proto"), int64(c.protocol))
	b = redcon.AppendInt(redcon.AppendBulkString(b, "id"), c.id)
	c.out = redcon.AppendArray(redcon.AppendBulkString(b, "modules"), 0)
}

func (c *conn) ping(args []string) {
	if len(args) == 1 {
		c.out = redcon.AppendBulkString(c.out, args[0])
		return
	}
	c.out = redcon.AppendString(c.out, "PONG")
}

func (c *conn) client(sub string, args []string) {
	wanted := map[string]int{"setinfo": 2, "setname": 1, "getname": 0, "id": 0}
	n, known := wanted[sub]
	switch {
	case !known:
		c.fail("ERR unknown subcommand " + quoted(sub) + ". A console takes CLIENT ID, GETNAME, SETNAME and SETINFO.")
		return
	case len(args) != n:
		c.fail("ERR wrong number of arguments for 'client|" + sub + "' command")
		return
	}
	switch sub {
	case "id":
		c.out = redcon.AppendInt(c.out, c.id)
	case "getname":
		if c.name == "" {
			c.out = appendNull(c.out, c.protocol)
			return
		}
		c.out = redcon.AppendBulkString(c.out, c.name)
	case "setname":
		if !validName(args[0]) {
			c.fail(invalidName)
			return
		}
		c.name = args[0]
		c.out = redcon.AppendOK(c.out)
	default:
		c.out = redcon.AppendOK(c.out)
	}
}

// command says that there is nothing to say of commands, which redis-cli asks when it starts.
func (c *conn) command(args []string) {
	switch {
	case len(args) == 0:
		c.out = redcon.AppendArray(c.out, 0)
	case strings.EqualFold(args[0], "count"):
		c.out = redcon.AppendInt(c.out, 0)
	case strings.EqualFold(args[0], "docs"):
		c.out = appendMapHeader(c.out, c.protocol, 0)
	default:
		c.out = redcon.AppendArray(c.out, 0)
	}
}

// info is the status, in the form in which tools look for it.
func (c *conn) info() {
	answer, err := c.server.options.Service.Proxy(c.server.ended, c.address, c.secret, []string{"STATUS"})
	if err != nil {
		c.fail(err.Error())
		return
	}
	fields, err := flatten(answer)
	if err != nil {
		c.fail("ERR " + err.Error())
		return
	}
	text := "# Server\r\nserver_name:sluice\r\nsluice_version:" + c.server.options.Version + "\r\n\r\n# Proxy\r\n" + strings.Join(fields, "\r\n") + "\r\n"
	c.out = redcon.AppendBulkString(c.out, text)
}

func (c *conn) selectDatabase(number string) {
	switch n, err := strconv.Atoi(number); {
	case err != nil:
		c.fail("ERR invalid DB index")
	case n != 0:
		c.fail("ERR DB index is out of range: a console has database 0 alone, and no keys")
	default:
		c.out = redcon.AppendOK(c.out)
	}
}
