package decode

import (
	"bytes"
	"strings"
)

// document is one document of a YAML file.
type document struct {
	text []byte
	// start is the number of the file's lines before text, first the line of the file, from 1, where its content begins.
	start, first int
}

// split cuts a file into its documents, leaving out those that are empty or have comments only. It looks at lines and
// knows nothing of YAML, so that a document with a syntax error ends where a person sees it end. That is right for
// objects: inside of one, no line can begin with "---" without being indented.
func split(data []byte) []document {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var out []document
	begin, start, line := 0, 0, 0
	add := func(end int) {
		d := document{text: data[begin:end], start: start}
		if d.first = contentLine(d.text); d.first > 0 {
			d.first += start
			out = append(out, d)
		}
	}
	for at := 0; at < len(data); line++ {
		next := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		switch text := bytes.TrimRight(data[at:next], "\r\n"); {
		case isMarker(text, "---"):
			add(at)
			begin, start = at+len("---"), line // the rest of the line belongs to the new document
		case isMarker(text, "..."):
			add(at)
			begin, start = next, line+1
		}
		at = next
	}
	add(len(data))
	return out
}

// isMarker says whether a line is a document marker: the three characters at its beginning, then space or nothing.
func isMarker(line []byte, marker string) bool {
	rest, found := bytes.CutPrefix(line, []byte(marker))
	return found && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
}

// contentLine gives the first line of text, from 1, that is neither empty, a comment nor a directive; 0 if there is none.
func contentLine(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return n
		}
	}
	return 0
}

// guessHead reads kind, namespace and name from the look of the lines of a document that cannot be parsed, so that the
// Problem can name the object. It may be wrong and is for people only.
func guessHead(text []byte) (kind, namespace, name string) {
	section := ""
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\r\n"), " #")
		key, value, found := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		if !found {
			continue
		}
		if !strings.HasPrefix(line, " ") {
			section = key
			if key == "kind" {
				kind = value
			}
			continue
		}
		switch {
		case section != "metadata":
		case key == "name" && name == "":
			name = value
		case key == "namespace" && namespace == "":
			namespace = value
		}
	}
	return kind, namespace, name
}
