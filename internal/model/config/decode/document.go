package decode

import (
	"bytes"
	"strings"
)

// document is one document of a YAML file.
type document struct {
	text []byte
	// start is the number of lines of the file before text. first is the line of the file, from 1,
	// where its content begins.
	start, first int
}

// splitDocuments returns the documents of a file, which lines "---" and "..." separate, without a
// byte order mark. They share the memory of data. It skips documents that are empty or contain only
// comments or directives. It looks for marker lines and does not parse YAML, so a document with a
// syntax error ends where a reader sees it end. This is correct for objects, because no unindented
// line inside an object can begin with "---".
func splitDocuments(data []byte) []document {
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

// isMarker reports whether a line is a document marker: it begins with marker ("---" or "..."),
// followed by a space, a tab or nothing.
func isMarker(line []byte, marker string) bool {
	rest, found := bytes.CutPrefix(line, []byte(marker))
	return found && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
}

// contentLine returns the number, from 1, of the first line of text that is not empty, a comment or
// a directive. It returns 0 if there is no such line. Document markers count as content.
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

// guessHead guesses kind, namespace and name from the lines of a document that cannot be parsed, so
// that the Problem can name the object. The result may be wrong or empty and is only for display.
// It reads kind from the last such line that is not indented. It reads name and namespace from the
// first such lines in the section metadata, at any depth.
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
