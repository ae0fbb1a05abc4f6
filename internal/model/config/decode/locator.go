package decode

import (
	"bytes"
	"encoding/json"

	"sigs.k8s.io/yaml"
)

// Locator finds the positions of fields in one file. It parses a document when its first position is
// requested, and is not safe for concurrent use.
type Locator struct{ documents []*lines }

// NewLocator returns a Locator for a file that [Manifest] reads: the extension of name selects the
// format. JSON after a syntax error is ignored.
func NewLocator(name string, data []byte) *Locator {
	l := new(Locator)
	if !IsJSON(name) {
		for _, d := range splitDocuments(data) {
			l.documents = append(l.documents, &lines{text: d.text, start: d.start, first: d.first})
		}
		return l
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		begin := int(decoder.InputOffset())
		var body json.RawMessage
		if decoder.Decode(&body) != nil {
			return l
		}
		begin += len(data[begin:]) - len(bytes.TrimLeft(data[begin:], " \t\r\n"))
		first := 1 + bytes.Count(data[:begin], []byte("\n"))
		l.documents = append(l.documents, &lines{text: body, start: first - 1, first: first})
	}
}

// Position returns the line and column, from 1, of a field of an object. document and within are
// the fields of [Decoded]. If the field does not exist, the result is the position of its nearest
// parent that exists; for an empty field, the position of the object. It returns 0, 0 for an
// unknown document.
func (l *Locator) Position(document int, within, field string) (line, column int) {
	if document < 1 || document > len(l.documents) {
		return 0, 0
	}
	line, column = l.documents[document-1].positionOf(within, field)
	return line, max(column, 1)
}

// Documents returns the JSON of the documents of a manifest that can be parsed, by their number,
// from 1. The extension of name selects the format, as in [Manifest]. It includes documents of
// kinds that [Manifest] does not decode. It omits YAML documents that cannot be parsed, and all
// JSON from the first syntax error.
func Documents(name string, data []byte) map[int][]byte {
	out := map[int][]byte{}
	if IsJSON(name) {
		decoder := json.NewDecoder(bytes.NewReader(data))
		for n := 1; ; n++ {
			var body json.RawMessage
			if decoder.Decode(&body) != nil {
				return out
			}
			out[n] = body
		}
	}
	for i, d := range splitDocuments(data) {
		if body, err := yaml.YAMLToJSON(d.text); err == nil {
			out[i+1] = body
		}
	}
	return out
}
