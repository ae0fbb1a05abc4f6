package decode

import (
	"bytes"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// lines finds the lines of fields in one document. It parses the document for this purpose only,
// when the first line is requested.
type lines struct {
	text   []byte
	start  int // lines of the file before text
	first  int // the result when nothing is found
	parsed bool
	root   *yaml.Node
}

// positionOf returns the line in the file and the column, from 1, of the field at path, or of its
// nearest parent that exists. If nothing of the path exists, it returns the first line of the
// document and 0. within is the path of the object in its document: "items[2]" in a list, otherwise
// "". The first call parses the text.
func (l *lines) positionOf(within, path string) (line, column int) {
	if !l.parsed {
		l.parsed = true
		var doc yaml.Node
		if err := yaml.Unmarshal(l.text, &doc); err == nil && len(doc.Content) > 0 {
			l.root = doc.Content[0]
		}
	}
	line = l.first
	at := l.root
	rest := strings.TrimPrefix(within+"."+path, ".")
	for at != nil && rest != "" {
		var here *yaml.Node
		if at, here, rest = descendPath(at, rest); here != nil {
			line, column = l.inFile(here.Line), here.Column
		}
	}
	return line, column
}

// inFile converts a line of the document, from 1, to a line of the file. The YAML parser also
// treats a lone carriage return as the end of a line. The result is therefore limited to the number
// of lines that end in a line feed.
func (l *lines) inFile(line int) int {
	return l.start + min(line, bytes.Count(l.text, []byte("\n"))+1)
}

// descendPath follows the first step of path from n. It returns the value found there, the node
// whose position is that of the step (a key, or an item of a list), and the rest of the path. If
// there is no such value, it returns nil, nil and "".
func descendPath(n *yaml.Node, path string) (value, position *yaml.Node, rest string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.SequenceNode:
		index, rest, found := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(index); err == nil && found && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i], rest
		}
	case yaml.MappingNode:
		// Keys may contain dots and brackets, so the longest key that matches determines where a
		// step ends.
		var best *yaml.Node
		longest := -1
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			length := stepLength(path, key.Value)
			if length > longest {
				best, position, longest = n.Content[i+1], key, length
			}
		}
		if longest >= 0 {
			return best, position, path[longest:]
		}
	}
	return nil, nil, ""
}

// stepLength returns the length of the prefix of path that names key: "key", ".key" or "[key]",
// where a proto name also matches in its JSON form. It returns -1 if path does not begin with key
// as a whole step.
func stepLength(path, key string) int {
	if strings.HasPrefix(path, "["+key+"]") {
		return len(key) + 2
	}
	path, dot := strings.TrimPrefix(path, "."), len(path)-len(strings.TrimPrefix(path, "."))
	for _, name := range []string{key, camelCase(key)} {
		rest, found := strings.CutPrefix(path, name)
		if found && dot+len(name) > 0 && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return dot + len(name)
		}
	}
	return -1
}

// camelCase converts a proto field name to its JSON name, such as per_try_timeout to perTryTimeout.
func camelCase(name string) string {
	parts := strings.Split(name, "_")
	for i, part := range parts {
		if i > 0 && part != "" {
			parts[i] = strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return strings.Join(parts, "")
}
