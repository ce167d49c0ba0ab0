package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// Every error that a client can get from the proxy itself, other than Redis's texts about command lines (package
// command) and malformed input (package resp), is in this file. Prefixes are Redis's, because clients act on them. None
// names a backend address.
const (
	errNoAuth            = "NOAUTH Authentication required."
	errWrongPass         = "WRONGPASS invalid username-password pair or user is disabled."
	errNoPassword        = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errAuthBusy          = "ERR too many passwords are being checked; try again"
	errHelloNoAuth       = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errNoProto           = "NOPROTO unsupported protocol version"
	errProtoInteger      = "ERR Protocol version is not an integer or out of range"
	errCrossSlot         = "CROSSSLOT Keys in request don't hash to the same slot"
	errNestedMulti       = "ERR MULTI calls can not be nested"
	errExecAlone         = "ERR EXEC without MULTI"
	errDiscardAlone      = "ERR DISCARD without MULTI"
	errWatchInMulti      = "ERR WATCH inside MULTI is not allowed"
	errNotInMulti        = "ERR Command not allowed inside a transaction"
	errExecAbort         = "EXECABORT Transaction discarded because of previous errors."
	errMonitorInMulti    = "ERR MONITOR isn't allowed for DENY BLOCKING client"
	errSSubscribeInMulti = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"
	errTrackingInMulti   = "ERR CLIENT TRACKING inside MULTI is not supported by this proxy, which would turn it on or off for other connections than the transaction's; send it before or after"
	errHelloAuthInMulti  = "ERR HELLO with AUTH and another protocol version inside MULTI is not supported by this proxy; send it before MULTI"
	errHelloTracking     = "ERR HELLO with another protocol version inside MULTI is not supported by this proxy while CLIENT TRACKING is on; send it before MULTI"
	errHelloWatching     = "ERR HELLO with another protocol version between WATCH and EXEC is not supported by this proxy together with AUTH, nor while CLIENT TRACKING is on; send it before WATCH"
	errAuthElsewhere     = "ERR AUTH as a user of another tenant is not supported by this proxy inside MULTI and between WATCH and EXEC; the user is the same as before"
	errTransactionLong   = "ERR the transaction is longer than 64 MiB"
	errDedicatedFull     = "ERR too many connections to this node are in use by blocked and watching clients; try again"
	errSyntax            = "ERR syntax error"
	errNotInteger        = "ERR value is not an integer or out of range"
	errNotInt32          = "ERR value is out of range, value must between -2147483648 and 2147483647"
	errMigrate           = "NOPERM 'migrate' would make servers that other tenants use too connect to any address, and is not available through this proxy"
	errFlushAll          = "NOPERM 'flushall' would empty other tenants' databases too; use FLUSHDB"
	errIndexRange        = "ERR DB index is out of range"
	errClientName        = "ERR Client names cannot contain spaces, newlines or special characters."
	errSharded           = "ERR SELECT is not allowed in cluster mode"
	errHalted            = "ERR this tenant is paused by the operator; try again later"
	errTenantGone        = "ERR this tenant is no longer served here"
	errDatabaseGone      = "ERR the database of this connection is no longer the tenant's"
	errGatherFull        = "ERR this proxy holds as many bytes of replies of several nodes as it may; ask for less at a time, or try again"
	errMaxClients        = "ERR max number of clients reached"
	errOutputTooLarge    = "ERR output buffer limit reached"
	errArgumentTooLong   = "ERR this command is longer than 16 MiB, the most that this proxy holds of one that cannot be passed on while it is received"
	errKeyAfterLong      = "ERR this command is longer than 16 MiB, the most that this proxy holds of one whose long argument stands before the key; put the key first or use a smaller argument"
	errTooManyChannels   = "ERR this client listens to as many channels as the proxy allows"
	errNoSuchClient      = "ERR No such client"
	errClientID          = "ERR Invalid client ID"
	errClientIDPositive  = "ERR client-id should be greater than 0"
	errMaxAge            = "ERR maxage is not an integer or out of range"
	errMaxAgePositive    = "ERR maxage should be greater than 0"
	errPauseTimeout      = "ERR timeout is not an integer or out of range"
	errPauseNegative     = "ERR timeout is negative"
	errPauseTooLong      = "ERR timeout is out of range"
	errSlowCount         = "ERR count should be greater than or equal to -1"
	errMonitors          = "ERR too many clients of this tenant monitor already"
	errMonitorKeyspace   = "ERR Replica can't interact with the keyspace" // Redis's words for a monitor too
	errPauseMode         = "ERR CLIENT PAUSE mode must be WRITE or ALL"
)

// What a node of a Redis Cluster says, or a server that is none.
const (
	errNoCluster   = "ERR This instance has cluster support disabled"
	errNoEndpoint  = "ERR this listener has no address that the nodes of a cluster could be told by; its advertise must name some"
	errNoSlotIndex = "ERR the backend of this tenant keeps no index of slots; only a Redis Cluster does"
	errSlot        = "ERR Invalid slot"
	errSlotOrCount = "ERR Invalid slot or number of keys"
	errClusterMove = "ERR MOVE is not allowed in cluster mode"
	errClusterCopy = "ERR Copying to another database is not allowed in cluster mode"
)

func errClientKind(name []byte) string { return "ERR Unknown client type '" + oneLine(name) + "'" }

func errNoSuchUser(name []byte) string { return "ERR No such user '" + oneLine(name) + "'" }

// errSubcommandSyntax is Redis's text for a subcommand whose arity allows more than its options do.
func errSubcommandSyntax(container string, sub []byte) string {
	return "ERR unknown subcommand or wrong number of arguments for '" + oneLine(sub) + "'. Try " + container + " HELP."
}

// What Redis says of CLIENT TRACKING and CLIENT CACHING, and what the proxy adds.
const (
	errRedirectTwice    = "ERR A client can only redirect to a single other client"
	errRedirectUnknown  = "ERR The client ID you want redirect to does not exist"
	errPrefixAlone      = "ERR PREFIX option requires BCAST mode to be enabled"
	errSwitchBroadcast  = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
	errBroadcastOptions = "ERR OPTIN and OPTOUT are not compatible with BCAST"
	errBothOptions      = "ERR You can't specify both OPTIN mode and OPTOUT mode"
	errSwitchOptions    = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
	errCachingOff       = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
	errCachingYes       = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
	errCachingNo        = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
	errBroadcastShared  = "NOPERM BCAST would tell the names of other tenants' keys on the same servers; use another mode of CLIENT TRACKING"
	errPrefixesLong     = "ERR the prefixes of this client are longer than 1 MiB together"
)

func errPrefixOverlap(prefix, which, other string) string {
	return "ERR Prefix '" + oneLine([]byte(prefix)) + "' overlaps with " + which + " prefix '" + oneLine([]byte(other)) + "'. Prefixes for a single client must not overlap."
}

func errNotSupportedYet(name string) string {
	return "ERR '" + name + "' needs a connection of its own, which is not supported yet by this proxy"
}

func errInMulti(name string) string {
	return "ERR '" + name + "' inside MULTI is not supported by this proxy"
}

func errTooLateInMulti(name, first string) string {
	return "ERR '" + name + "' behind '" + first + "' inside MULTI is not supported by this proxy: what concerns all shards is done when the node has run the rest; send it behind"
}

func errSubscribed(name string) string {
	return "ERR Can't execute '" + name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
}

func errWatching(name string) string {
	return "ERR '" + name + "' between WATCH and EXEC is not supported by this proxy"
}

func errAdmin(name string) string {
	return "NOPERM '" + name + "' concerns the operation of the backend and is not available through this proxy"
}

func errUnknownNode(id []byte) string { return "ERR Unknown node " + oneLine(id) }

func errStateful(name string) string {
	return "ERR '" + name + "' may change the state of a connection that others use too and is not served by this proxy, which does not know it"
}

func errKeysUnknown(name string) string {
	return "ERR '" + name + "' has keys whose places the backend does not tell, so the node is not known; it is not supported on a cluster"
}

func errReplication(name string) string {
	return "ERR '" + name + "' would make the connection another one than a client's, which this proxy does not pass through; ask the backend directly"
}

const errGenpass = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"

func errACLUsage(sub []byte) string {
	return "ERR unknown subcommand or wrong number of arguments for '" + oneLine(sub) + "'. Try ACL HELP."
}

// errSettings is for CONFIG GET when the backend cannot be asked.
func errSettings(err error) string {
	if errors.Is(err, upstream.ErrAskedTooMuch) {
		return "ERR too many questions to the backend; try again"
	}
	return "ERR upstream unavailable: the backend cannot be asked for its settings"
}

// errLearning is for a command outside the table about which the backend could not be asked.
func errLearning(err error) string {
	if errors.Is(err, upstream.ErrAskedTooMuch) {
		return "ERR too many commands that are unknown to the proxy are being asked about; the command was not executed, try again"
	}
	return "ERR upstream unavailable: the backend cannot be asked about this command" + executed(false)
}

func errOneNode(name string) string {
	return "ERR '" + name + "' would see one node of the cluster only, which is not supported yet by this proxy"
}

func errDatabase(database int) string {
	return fmt.Sprintf("NOPERM this tenant may not use database %d", database)
}

// Of commands over all shards.
const (
	errCursor         = "ERR invalid cursor"
	errCursorTooLarge = "ERR the cursor of a node is too large to be carried in that of the cluster"
	errUnexpectedScan = "ERR a node sent an unexpected reply to SCAN"
	errSwapDB         = "ERR SWAPDB is not allowed in cluster mode"
)

// errFailed is what the client gets instead of a reply.
func errFailed(f pipe.Failure, timeout time.Duration) string {
	outcome := executed(f.InDoubt)
	switch f.Reason {
	case pipe.TimedOut:
		if !f.InDoubt {
			return "ERR upstream timeout: the node of this key could not be connected in time" + outcome
		}
		return fmt.Sprintf("ERR upstream timeout: no reply within %s%s", timeout, outcome)
	case pipe.Unavailable:
		return "ERR upstream unavailable: the node of this key cannot be reached" + outcome
	case pipe.Malformed:
		return "ERR upstream sent a malformed reply" + outcome
	default:
		return "ERR upstream connection lost" + outcome
	}
}

// failedText is what the session's client gets instead of a reply. A node that runs a script says so itself.
func (s *Session) failedText(f pipe.Failure) string {
	if f.Reason == pipe.Busy {
		return s.local.BusyText()
	}
	return errFailed(f, s.tenant.CommandTimeout)
}

// notSentText is errNotSent for the session's client.
func (s *Session) notSentText(outcome upstream.Outcome, inDoubt bool) string {
	if outcome == upstream.Busy {
		return s.local.BusyText()
	}
	return errNotSent(outcome, inDoubt)
}

// executed tells the client what it may take for granted.
func executed(inDoubt bool) string {
	if inDoubt {
		return "; the command may have been executed, its outcome is unknown"
	}
	return "; the command was not executed"
}

// errNotSent is what the client gets when no node could take the command. inDoubt: parts of it may have been executed.
func errNotSent(outcome upstream.Outcome, inDoubt bool) string {
	switch outcome {
	case upstream.Uncovered:
		return "CLUSTERDOWN Hash slot not served"
	case upstream.Full:
		return "ERR upstream overloaded: too many commands are waiting for this node; try again"
	default:
		return "ERR upstream unavailable: the node of this key cannot be reached" + executed(inDoubt)
	}
}

// errPartlyDone tells of a command that some primaries have done and others have not.
func errPartlyDone(name string, done, all int, refusal string) string {
	return fmt.Sprintf("ERR '%s' was done on %d of %d primaries only, so they differ now; another said: %s", name, done, all, refusal)
}

func errNoScripts(name string) string {
	return "NOPERM '" + name + "' is not available to this tenant, for which scripts and functions are turned off"
}

func errSharedScripting(name string) string {
	return "NOPERM '" + name + "' concerns what all tenants of this backend share and is not available through this proxy"
}
