// Package resp bounds RESP2 and RESP3 bytes: it finds where a command or a
// reply ends, incrementally and within fixed limits, without decoding either.
//
// [CommandScanner] follows what a client sends by the rules of Redis 7.0
// (networking.c: processMultibulkBuffer, processInlineBuffer), error texts
// included. [ReplyScanner] follows what a server sends. Both are resumable, look
// at no byte twice and allocate nothing for what well-behaved peers send.
package resp
