package decode

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// lines finds the lines of fields in one document. The document is parsed, for this alone, when a first line is asked for.
type lines struct {
	text   []byte
	start  int // lines of the file before text
	first  int // what is answered when nothing is found
	parsed bool
	root   *yaml.Node
}

// of gives the line of a field by its path, or of the nearest field above it that is there. within is the path of the
// object in its document, "items[2]" for one in a list, else "".
func (l *lines) of(within, path string) int {
	if !l.parsed {
		l.parsed = true
		var doc yaml.Node
		if err := yaml.Unmarshal(l.text, &doc); err == nil && len(doc.Content) > 0 {
			l.root = doc.Content[0]
		}
	}
	line, at := l.first, l.root
	rest := strings.TrimPrefix(within+"."+path, ".")
	for at != nil && rest != "" {
		var here int
		if at, here, rest = descend(at, rest); here > 0 {
			line = l.inFile(here)
		}
	}
	return line
}

// inFile turns a line of the document, from 1, into a line of the file. The YAML parser also counts lone carriage returns
// as the ends of lines; nobody else does.
func (l *lines) inFile(line int) int {
	return l.start + min(line, bytes.Count(l.text, []byte("\n"))+1)
}

// descend takes one step down a path. It gives the value found there (nil if there is none), its line, and what remains.
func descend(n *yaml.Node, path string) (value *yaml.Node, line int, rest string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.SequenceNode:
		index, rest, found := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(index); err == nil && found && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i].Line, rest
		}
	case yaml.MappingNode:
		// Keys may have dots and brackets of their own, so the keys that are there decide where a step ends.
		var best *yaml.Node
		longest := -1
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			length := stepLength(path, key.Value)
			if length > longest {
				best, line, longest = n.Content[i+1], key.Line, length
			}
		}
		if longest >= 0 {
			return best, line, path[longest:]
		}
	}
	return nil, 0, ""
}

// stepLength gives the length of the beginning of path that names the key, -1 if it names another.
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

// camelCase turns a proto field name into its JSON name: per_try_timeout, perTryTimeout.
func camelCase(name string) string {
	parts := strings.Split(name, "_")
	for i, part := range parts {
		if i > 0 && part != "" {
			parts[i] = strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return strings.Join(parts, "")
}

// origin formats where something was read: "path#document:line".
func origin(file string, document, line int) string {
	return fmt.Sprintf("%s#%d:%d", file, document, line)
}
