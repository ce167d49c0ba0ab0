package session

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"
)

// prefixBytesMax bounds the prefixes of one session, in bytes.
const prefixBytesMax = 1 << 20

// trackingOptions are the words of CLIENT TRACKING.
type trackingOptions struct {
	on                           bool
	redirected                   bool
	redirect                     int64
	bcast, optIn, optOut, noLoop bool
	prefixes                     []string
}

// parseTracking reads CLIENT TRACKING ON|OFF option …. The options in front of a problem count: Redis looks for the client
// to redirect to as soon as it reads of it.
func parseTracking(args [][]byte) (o trackingOptions, problem string) {
	for i := 3; i < len(args); i++ {
		more := i+1 < len(args)
		switch option := strings.ToLower(string(args[i])); {
		case option == "redirect" && more:
			i++
			if o.redirected {
				return o, errRedirectTwice
			}
			id, ok := parseInteger(args[i])
			if !ok {
				return o, errNotInteger
			}
			o.redirect, o.redirected = id, true
		case option == "bcast":
			o.bcast = true
		case option == "optin":
			o.optIn = true
		case option == "optout":
			o.optOut = true
		case option == "noloop":
			o.noLoop = true
		case option == "prefix" && more:
			i++
			o.prefixes = append(o.prefixes, string(args[i]))
		default:
			return o, errSyntax
		}
	}
	switch strings.ToLower(string(args[2])) {
	case "on":
		o.on = true
	case "off":
	default:
		return o, errSyntax
	}
	return o, ""
}

// judge tells what Redis has against the options, which are to replace those of now if tracking is on.
func (o *trackingOptions) judge(now *trackingOptions, on bool) (problem string) {
	switch {
	case !o.bcast && len(o.prefixes) > 0:
		return errPrefixAlone
	case on && o.bcast != now.bcast:
		return errSwitchBroadcast
	case o.bcast && (o.optIn || o.optOut):
		return errBroadcastOptions
	case o.optIn && o.optOut:
		return errBothOptions
	case o.optIn && now.optOut, o.optOut && now.optIn:
		return errSwitchOptions
	}
	for i, prefix := range o.prefixes {
		for _, other := range now.prefixes {
			if overlap(prefix, other) {
				return errPrefixOverlap(prefix, "an existing", other)
			}
		}
		for _, other := range o.prefixes[i+1:] {
			if overlap(prefix, other) {
				return errPrefixOverlap(prefix, "another provided", other)
			}
		}
	}
	return ""
}

func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// addPrefixes adds the prefixes that are wanted; none means all keys.
func (o *trackingOptions) addPrefixes(wanted *trackingOptions) {
	if !wanted.bcast {
		return
	}
	added := wanted.prefixes
	if len(added) == 0 {
		added = []string{""}
	}
	o.prefixes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.prefixes, added))))
}

func prefixBytes(prefixes []string) (n int) {
	for _, prefix := range prefixes {
		n += len(prefix) + 16
	}
	return n
}

// appendCommand appends the command that turns tracking on at a node.
func (o *trackingOptions) appendCommand(dst []byte, redirect int64, prefixes []string) []byte {
	words := []string{"CLIENT", "TRACKING", "ON"}
	if redirect != 0 {
		words = append(words, "REDIRECT", strconv.FormatInt(redirect, 10))
	}
	for _, option := range []struct {
		set  bool
		name string
	}{{o.bcast, "BCAST"}, {o.optIn, "OPTIN"}, {o.optOut, "OPTOUT"}, {o.noLoop, "NOLOOP"}} {
		if option.set {
			words = append(words, option.name)
		}
	}
	if !slices.Contains(prefixes, "") { // which stands for all keys, as no prefix does
		for _, prefix := range prefixes {
			words = append(words, "PREFIX", prefix)
		}
	}
	dst = redcon.AppendArray(dst, len(words))
	for _, word := range words {
		dst = redcon.AppendBulkString(dst, word)
	}
	return dst
}

// flags are what CLIENT TRACKINGINFO says, in Redis's order.
func (tr *tracking) flags() []string {
	flags := []string{"on"}
	add := func(set bool, name string) {
		if set {
			flags = append(flags, name)
		}
	}
	add(tr.bcast, "bcast")
	add(tr.optIn, "optin")
	add(tr.optIn && tr.caching, "caching-yes")
	add(tr.optOut, "optout")
	add(tr.optOut && tr.caching, "caching-no")
	add(tr.noLoop, "noloop")
	add(tr.broken, "broken_redirect")
	return flags
}

// judgeCaching tells why CLIENT CACHING is refused.
func (s *Session) judgeCaching(how string) (problem string) {
	tr := s.tracking
	if tr == nil {
		return errCachingOff
	}
	switch strings.ToLower(how) {
	case "yes":
		if !tr.optIn {
			return errCachingYes
		}
	case "no":
		if !tr.optOut {
			return errCachingNo
		}
	default:
		return errSyntax
	}
	return ""
}

// cachingCommand is the CLIENT CACHING of the mode.
func (tr *tracking) cachingCommand() []byte {
	how := "YES"
	if tr.optOut {
		how = "NO"
	}
	b := redcon.AppendBulkString(redcon.AppendArray(nil, 3), "CLIENT")
	return redcon.AppendBulkString(redcon.AppendBulkString(b, "CACHING"), how)
}
