package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// IsManifest reports whether a path has the extension of a manifest: .yaml, .yml or .json, in small
// or capital letters.
func IsManifest(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", jsonExtension:
		return true
	default:
		return false
	}
}

// jsonExtension is the extension of manifests in JSON.
const jsonExtension = ".json"

// IsJSON reports whether a path has the extension of a manifest in JSON, in small or capital
// letters.
func IsJSON(name string) bool { return strings.ToLower(path.Ext(name)) == jsonExtension }

// ManifestsBelow returns the paths of the manifests below a directory (by their names, IsManifest),
// in lexical order within each directory, without hidden files and directories. dir may be a
// symbolic link. It also returns the links below it that do not have the name of a manifest; links
// to directories are not followed. At the first directory that cannot be read it returns the error,
// with the results until then.
func ManifestsBelow(dir string) (manifests, links []string, err error) {
	root := strings.TrimRight(dir, string(filepath.Separator)) + string(filepath.Separator) // follows a link
	err = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err // e is nil if the directory itself cannot be read.
		}
		switch hidden := name != root && strings.HasPrefix(e.Name(), "."); {
		case hidden && e.IsDir():
			return fs.SkipDir
		case hidden || e.IsDir():
		case IsManifest(name):
			manifests = append(manifests, name)
		case e.Type()&fs.ModeSymlink != 0:
			links = append(links, name)
		}
		return nil
	})
	return manifests, links, err
}

// Manifest decodes all objects of a file, in order. The extension of name selects the format: JSON
// for .json (one value after another), otherwise YAML (documents between lines "---"). An object
// with items whose kind ends in "List" is replaced by its items, as in the output of kubectl. A
// document that cannot be parsed results in one object with an Error.
//
// name identifies the file in origins: "reviews.yaml#2:14" is line 14, in the second document.
// Documents are numbered from 1, without empty ones.
//
// The origin of a Problem about a field also has the column: "reviews.yaml#2:17:5".
func Manifest(name string, data []byte) []Decoded { return decodeDocuments(name, data, allDocuments) }

// Document decodes the objects of one document of a file like [Manifest]. It returns nil if the
// file does not have a document of this number, or has a syntax error in JSON before it.
func Document(name string, data []byte, number int) []Decoded {
	return decodeDocuments(name, data, func(n int) bool { return n == number })
}

// allDocuments selects all documents of a file.
func allDocuments(int) bool { return true }

// decodeDocuments decodes the objects of the documents of a file whose numbers are wanted. A file
// with the extension .json is decoded as JSON, all others as YAML.
func decodeDocuments(name string, data []byte, wanted func(number int) bool) []Decoded {
	if IsJSON(name) {
		return decodeJSONDocuments(name, data, wanted)
	}
	var out []Decoded
	for i, doc := range splitDocuments(data) {
		if !wanted(i + 1) {
			continue
		}
		m := &manifest{file: name, document: i + 1, lines: lines{text: doc.text, start: doc.start, first: doc.first}}
		out = append(out, m.decodeYAML(doc)...)
	}
	return out
}

// manifest is one document while it is decoded.
type manifest struct {
	file     string
	document int
	lines    lines
}

// decodeYAML decodes one document. If it has duplicate keys, the duplicates are Problems of each of
// its objects, which have no Config, only Partial. A syntax error results in one object without
// content, with an Error whose Key is guessed.
func (m *manifest) decodeYAML(doc document) []Decoded {
	body, err := yaml.YAMLToJSONStrict(doc.text)
	if err == nil {
		return m.decodeObjects(body, nil)
	}
	// A duplicate key does not prevent decoding of the rest, so the object is at least known by
	// name.
	if body, lenient := yaml.YAMLToJSON(doc.text); lenient == nil {
		return m.decodeObjects(body, m.duplicateProblems(err))
	}
	d := Decoded{Document: m.document, Line: m.lines.first}
	line, reason := syntaxError(err)
	if line > 0 {
		d.Line = m.lines.inFile(line)
	}
	kind, namespace, name := guessHead(doc.text)
	d = failedObject(config.Key{Kind: api.Kind(kind), Namespace: namespace, Name: name}, "", reason).atLine(m, d.Line)
	d.Problems[0].Origin = m.originOf(d.Line)
	return []Decoded{d}
}

// originOf returns the origin for a line of the file.
func (m *manifest) originOf(line int) string {
	return Origin{File: m.file, Document: m.document, Line: line}.String()
}

// fieldOrigin returns the origin of a field, or of its nearest parent that exists. For an empty
// field it is that of the object, without a column. within is the path of the object in the
// document.
func (m *manifest) fieldOrigin(within, field string) string {
	line, column := m.lines.positionOf(within, field)
	if field == "" {
		return m.originOf(line)
	}
	return Origin{File: m.file, Document: m.document, Line: line, Column: max(column, 1)}.String()
}

// atLine returns d with its document and line set.
func (d Decoded) atLine(m *manifest, line int) Decoded {
	d.Document, d.Line = m.document, line
	return d
}

// decodeObjects decodes the object or list of objects in body, a document as JSON. The faults of
// the document are reported for each of its objects. A list is a kind that ends in "List" and has
// items; an empty list results in nil.
func (m *manifest) decodeObjects(body []byte, faults []config.Problem) []Decoded {
	o := parseObject(body)
	items, isList := o.items()
	if !isList {
		return m.decodeOne(o, "", faults)
	}
	var out []Decoded
	for i, item := range items {
		out = append(out, m.decodeOne(parseObject(item), fmt.Sprintf("items[%d]", i), faults)...)
	}
	return out
}

// decodeOne decodes one object, whose path in the document is within. An Endpoints object results
// in several objects or none.
func (m *manifest) decodeOne(o object, within string, faults []config.Problem) []Decoded {
	if o.isEndpoints() {
		return m.mirrorEndpoints(o.body, within, faults)
	}
	return []Decoded{m.decodeObject(o, within, faults)}
}

// decodeObject decodes one object, and sets the position and origin of the object and its Problems.
// within is its path in the document. It adds the faults of the document, except the ones that the
// object's Problems already contain. If there are any faults, the Config becomes Partial, so the
// object is not used.
func (m *manifest) decodeObject(o object, within string, faults []config.Problem) Decoded {
	d := o.decode(false).atLine(m, m.lines.first)
	d.Within = within
	if within != "" {
		d.Line, _ = m.lines.positionOf(within, "")
	}
	for i := range d.Problems {
		d.Problems[i].Origin = m.fieldOrigin(within, d.Problems[i].Field)
	}
	for _, p := range faults {
		if d.Config != nil {
			d.Config, d.Partial = nil, d.Config
		}
		p.Key = d.Key
		known := slices.ContainsFunc(
			d.Problems,
			func(q config.Problem) bool { return q.Field != "" && q.Field == p.Field && q.Reason == p.Reason },
		)
		if !known {
			d.Problems = append(d.Problems, p)
		}
	}
	// d.Config is not shared yet, and its hash does not cover the origin.
	for _, c := range []*config.Config{d.Config, d.Partial} {
		if c != nil {
			c.Origin = m.originOf(d.Line)
		}
	}
	return d
}

// yamlLine matches the line number in an error of the YAML parser.
const yamlLine = `line (\d+): (.*)`

// duplicateProblems returns the Problems for err, an error of strict YAML decoding that lenient
// decoding does not return: at least one.
func (m *manifest) duplicateProblems(err error) []config.Problem {
	var out []config.Problem
	for _, match := range regexp.MustCompile(yamlLine).FindAllStringSubmatch(err.Error(), -1) {
		line, _ := strconv.Atoi(match[1])
		out = append(out, config.Problem{
			Reason: match[2], Severity: config.Error, Origin: m.originOf(m.lines.inFile(line)),
		})
	}
	if out == nil {
		out = []config.Problem{
			{Reason: err.Error(), Severity: config.Error, Origin: m.originOf(m.lines.first)},
		}
	}
	return out
}

// syntaxError returns the line in an error of the YAML parser, in the document and from 1, and the
// reason. line is 0 if the error has no line.
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

// decodeJSONDocuments decodes the wanted values of a file of JSON values, one after another. It
// stops at the first syntax error, because the rest of the file cannot be parsed, with a Problem if
// the value with the error is wanted.
func decodeJSONDocuments(name string, data []byte, wanted func(number int) bool) []Decoded {
	var out []Decoded
	decoder := json.NewDecoder(bytes.NewReader(data))
	for n := 1; ; n++ {
		begin := int(decoder.InputOffset())
		var body json.RawMessage
		err := decoder.Decode(&body)
		if errors.Is(err, io.EOF) || err != nil && !wanted(n) {
			return out
		}
		if !wanted(n) {
			continue
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
			d := failedObject(config.Key{}, "", "invalid JSON: "+err.Error()).atLine(m, line)
			d.Problems[0].Origin = m.originOf(line)
			return append(out, d)
		}
		body, faults := m.jsonDuplicates(body)
		out = append(out, m.decodeObjects(body, faults)...)
	}
}

// jsonDuplicates returns body without duplicate keys, and a Problem for each, which encoding/json
// ignores. If there are none or body cannot be parsed, it returns body itself and nil.
func (m *manifest) jsonDuplicates(body []byte) ([]byte, []config.Problem) {
	var tree any
	faults, err := kjson.UnmarshalStrict(body, &tree)
	if err != nil || len(faults) == 0 {
		return body, nil // the decoder of the object reports an error
	}
	var out []config.Problem
	for _, fault := range faults {
		reason, quoted, _ := strings.Cut(fault.Error(), " \"")
		at := strings.TrimSuffix(quoted, "\"")
		out = append(out, config.Problem{
			Field:    at,
			Reason:   reason,
			Severity: config.Error,
			Origin:   m.fieldOrigin("", at),
		})
	}
	if single, err := json.Marshal(tree); err == nil {
		body = single
	}
	return body, out
}
