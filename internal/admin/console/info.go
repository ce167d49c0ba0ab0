package console

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// flatten makes lines "name:value" of an object, as INFO has them. The names of objects within stand before their fields';
// of a list the number of its items is told.
func flatten(value any) ([]string, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("cannot write the reply: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	return flattenNext(nil, "", decoder)
}

func flattenNext(lines []string, name string, decoder *json.Decoder) ([]string, error) {
	token, err := decoder.Token()
	if err != nil {
		return lines, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return flattenObject(lines, name, decoder)
		}
		n := 0
		for ; decoder.More(); n++ {
			var item json.RawMessage
			if err := decoder.Decode(&item); err != nil {
				return lines, err
			}
		}
		_, err = decoder.Token()
		return append(lines, fmt.Sprintf("%s:%d", name, n)), err
	case bool:
		n := 0
		if t {
			n = 1
		}
		return append(lines, fmt.Sprintf("%s:%d", name, n)), nil
	case nil:
		return lines, nil
	}
	return append(lines, oneLine(fmt.Sprintf("%s:%v", name, token))), nil
}

func flattenObject(lines []string, prefix string, decoder *json.Decoder) ([]string, error) {
	if prefix != "" {
		prefix += "_"
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return lines, err
		}
		if lines, err = flattenNext(lines, prefix+fmt.Sprint(name), decoder); err != nil {
			return lines, err
		}
	}
	_, err := decoder.Token()
	return lines, err
}
