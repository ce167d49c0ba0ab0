package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"
)

// appendMapHeader begins n pairs: a map of RESP3, and of RESP2 the flat array that Redis makes of one.
func appendMapHeader(b []byte, protocol, n int) []byte {
	if protocol < 3 {
		return redcon.AppendArray(b, 2*n)
	}
	return append(strconv.AppendInt(append(b, '%'), int64(n), 10), '\r', '\n')
}

func appendNull(b []byte, protocol int) []byte {
	if protocol < 3 {
		return redcon.AppendNull(b)
	}
	return append(b, "_\r\n"...)
}

func appendHelp(b []byte, lines Help) []byte {
	b = redcon.AppendArray(b, len(lines))
	for _, line := range lines {
		b = redcon.AppendString(b, line)
	}
	return b
}

// appendValue writes what JSON makes of a value, so that the console says what the admin API says, with its names and in its
// order: objects are maps, whole numbers integers. RESP2 has neither booleans nor fractions; as Redis does, 1 and 0 stand
// for the ones and text for the others.
func appendValue(b []byte, protocol int, value any) ([]byte, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return b, fmt.Errorf("cannot write the reply: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	return appendNext(b, protocol, decoder)
}

// appendNext writes the decoder's next value.
func appendNext(b []byte, protocol int, decoder *json.Decoder) ([]byte, error) {
	token, err := decoder.Token()
	if err != nil {
		return b, err
	}
	switch t := token.(type) {
	case json.Delim:
		return appendContainer(b, protocol, decoder, t == '{')
	case string:
		return redcon.AppendBulkString(b, t), nil
	case json.Number:
		return appendNumber(b, protocol, t), nil
	case bool:
		return appendBool(b, protocol, t), nil
	}
	return appendNull(b, protocol), nil
}

// appendContainer writes the items that follow; how many they are stands before them, so they are written apart.
func appendContainer(b []byte, protocol int, decoder *json.Decoder, object bool) ([]byte, error) {
	var items []byte
	var err error
	n := 0
	for ; decoder.More(); n++ {
		if items, err = appendNext(items, protocol, decoder); err != nil {
			return b, err
		}
	}
	if _, err := decoder.Token(); err != nil { // its end
		return b, err
	}
	if object {
		b = appendMapHeader(b, protocol, n/2) // names count as items
	} else {
		b = redcon.AppendArray(b, n)
	}
	return append(b, items...), nil
}

func appendNumber(b []byte, protocol int, n json.Number) []byte {
	if whole, err := n.Int64(); err == nil {
		return redcon.AppendInt(b, whole)
	}
	if protocol < 3 {
		return redcon.AppendBulkString(b, n.String())
	}
	return append(append(append(b, ','), n...), '\r', '\n')
}

func appendBool(b []byte, protocol int, yes bool) []byte {
	switch {
	case protocol >= 3 && yes:
		return append(b, "#t\r\n"...)
	case protocol >= 3:
		return append(b, "#f\r\n"...)
	case yes:
		return redcon.AppendInt(b, 1)
	}
	return redcon.AppendInt(b, 0)
}

// longestError bounds the text of an error.
const longestError = 2000

// oneLine keeps an error's text on its line.
func oneLine(text string) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(text[:min(len(text), longestError)])
}

// quoted is what a client sent, as errors of Redis show it.
func quoted(text string) string { return "'" + text[:min(len(text), 128)] + "'" }
