package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// ReadDownwardFile reads a file of labels or annotations written by the downward API. For a missing
// file it returns nil without an error: outside Kubernetes there is none. A file that cannot be
// read or parsed (ParseDownward) is an error.
func ReadDownwardFile(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read downward API file: %w", err)
	}
	values, err := ParseDownward(string(text))
	if err != nil {
		return nil, fmt.Errorf("read downward API file %q: %w", path, err)
	}
	return values, nil
}

// ParseDownward parses lines of key="value". The value is quoted like a Go string, because
// Kubernetes writes it with %q. Blank lines are skipped, any other line is an error, and the last
// of equal keys wins.
func ParseDownward(text string) (map[string]string, error) {
	values := map[string]string{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, quoted, ok := strings.Cut(line, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("line %d: expected key=\"value\"", number)
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("line %d: value of %q is not a quoted string", number, key)
		}
		values[key] = value
	}
	return values, nil
}
