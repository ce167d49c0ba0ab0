package command

// Flags are a command's properties. The bits are in the order in which COMMAND lists them.
type Flags uint64

// The flags, each named as Redis names it.
const (
	Write Flags = 1 << iota
	ReadOnly
	DenyOOM
	Module
	Admin
	PubSub
	NoScript
	Blocking
	Loading
	Stale
	SkipMonitor
	SkipSlowlog
	Asking
	Fast
	NoAuth
	MayReplicate
	NoMandatoryKeys
	NoAsyncLoading
	NoMulti
	MovableKeys
	AllowBusy
)

var flagNames = [...]string{
	"write", "readonly", "denyoom", "module", "admin", "pubsub", "noscript", "blocking", "loading", "stale",
	"skip_monitor", "skip_slowlog", "asking", "fast", "no_auth", "may_replicate", "no_mandatory_keys",
	"no_async_loading", "no_multi", "movablekeys", "allow_busy",
}

// Names are the flags as COMMAND names them.
func (f Flags) Names() []string {
	names := []string{}
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// KeyFlags tell what a command does with a key. The bits are in the order in which COMMAND lists them.
type KeyFlags uint32

// The key flags. RO, RW, OW and RM tell how the whole value is used, Access to Delete what happens to the data in it.
const (
	KeyRO KeyFlags = 1 << iota
	KeyRW
	KeyOW
	KeyRM
	KeyAccess
	KeyUpdate
	KeyInsert
	KeyDelete
	// KeyNotKey marks what decides the slot and is no key: a shard channel.
	KeyNotKey
	// KeyIncomplete marks a spec that may miss some keys.
	KeyIncomplete
	// KeyVariableFlags marks a spec whose flags depend on the arguments.
	KeyVariableFlags
)

var keyFlagNames = [...]string{
	"RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "not_key", "incomplete", "variable_flags",
}

// Categories are the ACL categories of a command. The bits are in the order of ACL CAT.
type Categories uint32

// The ACL categories.
const (
	CategoryKeyspace Categories = 1 << iota
	CategoryRead
	CategoryWrite
	CategorySet
	CategorySortedSet
	CategoryList
	CategoryHash
	CategoryString
	CategoryBitmap
	CategoryHyperLogLog
	CategoryGeo
	CategoryStream
	CategoryPubSub
	CategoryAdmin
	CategoryFast
	CategorySlow
	CategoryBlocking
	CategoryDangerous
	CategoryConnection
	CategoryTransaction
	CategoryScripting
)

var categoryNames = [...]string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo", "stream",
	"pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
}

// categoryNamed gives the category of that name in any case, 0 if there is none.
func categoryNamed(name []byte) Categories {
	for i, known := range categoryNames {
		if equalFold(name, known) {
			return 1 << i
		}
	}
	return 0
}
