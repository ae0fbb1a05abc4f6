package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// ReadFile reads a file of variables as a virtual machine gets it (cluster.env): NAME=VALUE in lines, perhaps with "export" before
// and quotes around, and comments. A file that is not there has none.
func ReadFile(path string) (Variables, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read environment file: %w", err)
	}
	vars, err := ParseFile(string(text))
	if err != nil {
		return nil, fmt.Errorf("read environment file %q: %w", path, err)
	}
	return vars, nil
}

// ParseFile reads the text of such a file. Nothing in it is expanded or run: it is a file of values, not a script.
func ParseFile(text string) (Variables, error) {
	vars := Variables{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t\"'") {
			return nil, fmt.Errorf("line %d: want NAME=VALUE", number)
		}
		unquoted, ok := unquote(value)
		if !ok {
			return nil, fmt.Errorf("line %d: the value of %s has a quote that does not end", number, name)
		}
		vars[name] = unquoted
	}
	return vars, nil
}

// unquote takes away quotes around a value as a shell would: in single ones everything is as it stands, in double ones a
// backslash stands before what is.
func unquote(value string) (string, bool) {
	switch {
	case !strings.HasPrefix(value, "'") && !strings.HasPrefix(value, `"`):
		return value, true
	case len(value) < 2 || value[len(value)-1] != value[0]:
		return "", false
	}
	inside := value[1 : len(value)-1]
	if value[0] == '\'' {
		return inside, !strings.Contains(inside, "'")
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`").Replace(inside), true
}
