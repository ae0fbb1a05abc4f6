package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Manifest reads all objects of a file, in order. The ending of its name says whether it is JSON (.json: one value after
// another) or YAML (documents between lines "---"). Lists (kind List, or any kind with items, as kubectl prints them)
// are unfolded.
//
// The name is the file's in origins: "reviews.yaml#2:14" is line 14, in the second document. Documents are counted from
// 1, without empty ones.
func Manifest(name string, data []byte) []Decoded {
	if path.Ext(name) == ".json" {
		return jsonManifest(name, data)
	}
	var out []Decoded
	for i, doc := range split(data) {
		m := &manifest{file: name, document: i + 1, lines: lines{text: doc.text, start: doc.start, first: doc.first}}
		out = append(out, m.yaml(doc)...)
	}
	return out
}

// manifest is one document on its way.
type manifest struct {
	file     string
	document int
	lines    lines
}

func (m *manifest) yaml(doc document) []Decoded {
	body, err := yaml.YAMLToJSONStrict(doc.text)
	if err == nil {
		return m.objects(body, nil)
	}
	// A key that is there twice does not keep the rest from being read, so that the object is at least known by name.
	if body, lenient := yaml.YAMLToJSON(doc.text); lenient == nil {
		return m.objects(body, m.duplicates(err))
	}
	d := Decoded{Document: m.document, Line: m.lines.first}
	line, reason := syntaxError(err)
	if line > 0 {
		d.Line = m.lines.inFile(line)
	}
	kind, namespace, name := guessHead(doc.text)
	d = failed(config.Key{Kind: api.Kind(kind), Namespace: namespace, Name: name}, "", reason).at(m, d.Line)
	d.Problems[0].Origin = origin(m.file, m.document, d.Line)
	return []Decoded{d}
}

// at gives the object its place.
func (d Decoded) at(m *manifest, line int) Decoded {
	d.Document, d.Line = m.document, line
	return d
}

// objects reads the objects of a document that is valid JSON. Faults of the document are faults of each of them.
func (m *manifest) objects(body []byte, faults []config.Problem) []Decoded {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil || list.Items == nil || !strings.HasSuffix(list.Kind, "List") {
		return m.one(body, "", faults)
	}
	var out []Decoded
	for i, item := range list.Items {
		out = append(out, m.one(item, fmt.Sprintf("items[%d]", i), faults)...)
	}
	return out
}

// one reads one object, which may stand for several.
func (m *manifest) one(body []byte, within string, faults []config.Problem) []Decoded {
	if isEndpoints(body) {
		return m.endpoints(body, within, faults)
	}
	return []Decoded{m.object(body, within, faults)}
}

// object reads one object and tells it, and everything wrong with it, where it is. within is its path in the document.
func (m *manifest) object(body []byte, within string, faults []config.Problem) Decoded {
	d := Object(body).at(m, m.lines.first)
	if within != "" {
		d.Line = m.lines.of(within, "")
	}
	for i := range d.Problems {
		p := &d.Problems[i]
		line := d.Line
		if p.Field != "" {
			line = m.lines.of(within, p.Field)
		}
		p.Origin = origin(m.file, m.document, line)
	}
	for _, p := range faults {
		p.Key, d.Config = d.Key, nil
		known := slices.ContainsFunc(d.Problems, func(q config.Problem) bool { return q.Field != "" && q.Field == p.Field && q.Reason == p.Reason })
		if !known {
			d.Problems = append(d.Problems, p)
		}
	}
	if d.Config != nil {
		c := *d.Config // not shared with anyone yet; its hash does not cover the origin
		c.Origin = origin(m.file, m.document, d.Line)
		d.Config = &c
	}
	return d
}

// yamlLine finds the line number in an error of the YAML parser.
const yamlLine = `line (\d+): (.*)`

// duplicates turns the error of a strict reading that a lenient one does not have into Problems.
func (m *manifest) duplicates(err error) []config.Problem {
	var out []config.Problem
	for _, match := range regexp.MustCompile(yamlLine).FindAllStringSubmatch(err.Error(), -1) {
		line, _ := strconv.Atoi(match[1])
		out = append(out, config.Problem{
			Reason: match[2], Severity: config.Error, Origin: origin(m.file, m.document, m.lines.inFile(line)),
		})
	}
	if out == nil {
		out = []config.Problem{{Reason: err.Error(), Severity: config.Error, Origin: origin(m.file, m.document, m.lines.first)}}
	}
	return out
}

// syntaxError takes the line, in the document and from 1, out of an error of the YAML parser; 0 if it has none.
func syntaxError(err error) (line int, reason string) {
	if match := regexp.MustCompile(yamlLine).FindStringSubmatch(err.Error()); match != nil {
		line, _ = strconv.Atoi(match[1])
		return line, "invalid YAML: " + match[2]
	}
	_, reason, _ = strings.Cut(err.Error(), "yaml: ")
	if reason == "" {
		reason = err.Error()
	}
	return 0, "invalid YAML: " + reason
}

// jsonManifest reads a file of JSON values one after the other. After a syntax error nothing more of it can be read.
func jsonManifest(name string, data []byte) []Decoded {
	var out []Decoded
	decoder := json.NewDecoder(bytes.NewReader(data))
	for n := 1; ; n++ {
		begin := int(decoder.InputOffset())
		var body json.RawMessage
		err := decoder.Decode(&body)
		if errors.Is(err, io.EOF) {
			return out
		}
		begin += len(data[begin:]) - len(bytes.TrimLeft(data[begin:], " \t\r\n"))
		first := 1 + bytes.Count(data[:begin], []byte("\n"))
		m := &manifest{file: name, document: n, lines: lines{text: body, start: first - 1, first: first}}
		if err != nil {
			line := first
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) && int(syntax.Offset) <= len(data) {
				line = 1 + bytes.Count(data[:syntax.Offset], []byte("\n"))
			}
			d := failed(config.Key{}, "", "invalid JSON: "+err.Error()).at(m, line)
			d.Problems[0].Origin = origin(name, n, line)
			return append(out, d)
		}
		body, faults := m.jsonDuplicates(body)
		out = append(out, m.objects(body, faults)...)
	}
}

// jsonDuplicates finds keys that are there twice, which encoding/json overlooks, and gives the value without them.
func (m *manifest) jsonDuplicates(body []byte) ([]byte, []config.Problem) {
	var tree any
	faults, err := kjson.UnmarshalStrict(body, &tree)
	if err != nil || len(faults) == 0 {
		return body, nil // an error is reported by what reads it in earnest
	}
	var out []config.Problem
	for _, fault := range faults {
		reason, quoted, _ := strings.Cut(fault.Error(), " \"")
		at := strings.TrimSuffix(quoted, "\"")
		out = append(out, config.Problem{
			Field: at, Reason: reason, Severity: config.Error, Origin: origin(m.file, m.document, m.lines.of("", at)),
		})
	}
	if single, err := json.Marshal(tree); err == nil {
		body = single
	}
	return body, out
}
