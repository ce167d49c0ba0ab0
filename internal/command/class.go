package command

// Class groups commands for metrics, after Redis's own command groups.
type Class uint8

// The classes. ClassOther is for commands that no group fits.
const (
	ClassOther Class = iota
	ClassString
	ClassHash
	ClassList
	ClassSet
	ClassSortedSet
	ClassStream
	ClassGeneric
	ClassBitmap
	ClassHyperLogLog
	ClassGeo
	ClassScripting
	ClassPubSub
	ClassTransactions
	ClassConnection
	ClassServer
	ClassCluster

	// ClassCount is how many classes there are, for arrays that a class indexes.
	ClassCount = iota
)

var classNames = [ClassCount]string{
	"other", "string", "hash", "list", "set", "sorted-set", "stream", "generic", "bitmap", "hyperloglog", "geo",
	"scripting", "pubsub", "transactions", "connection", "server", "cluster",
}

// String is the class as a metric label.
func (c Class) String() string {
	if int(c) >= len(classNames) {
		return classNames[ClassOther]
	}
	return classNames[c]
}

// Kind says how the proxy serves a command.
type Kind uint8

// The kinds.
const (
	// KindForward goes as it is to the node that owns its keys, or to a node when it has none (see Command.AnyNode).
	KindForward Kind = iota
	// KindLocal is answered by the proxy.
	KindLocal
	// KindSplit has many keys and a result that can be merged, so it may be split by slot.
	KindSplit
	// KindDedicated blocks, or leaves state on the connection, so it needs a backend connection of its own.
	KindDedicated
	// KindFanOut concerns the whole keyspace or every node: on a cluster it is asked of every shard and the answers are
	// merged, see package session. One server answers it as it is.
	KindFanOut
	// KindPublish goes to a node, and its answer is corrected by the clients that listen through the proxy.
	KindPublish
	// KindAdmin concerns the backend's operation and is refused.
	KindAdmin
	// KindLearned is not in the table; what is known of it is what a node said, see FromInfo.
	KindLearned
)

var kindNames = [...]string{"forward", "local", "split", "dedicated", "fan-out", "publish", "admin", "learned"}

// String names the kind.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}
