package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// ReadFile reads a file of variables, such as cluster.env of a virtual machine. For a missing file
// it returns nil without an error, and for an empty one variables that are not nil. See ParseFile
// for the format.
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

// ParseFile parses lines of NAME=VALUE, with or without "export " before the name and quotes around
// the value (unquote). It skips empty lines and lines that begin with #. Nothing is expanded or
// executed, and of equal names the last wins. It returns an error for any other line, for a name
// with spaces or quotes, and for an unterminated quote.
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
			return nil, fmt.Errorf("line %d: expected NAME=VALUE", number)
		}
		unquoted, ok := unquote(value)
		if !ok {
			return nil, fmt.Errorf("line %d: unterminated quote in the value of %s", number, name)
		}
		vars[name] = unquoted
	}
	return vars, nil
}

// unquote removes quotes around a value as a shell does: single quotes keep the text literal, in
// double quotes the escapes of backslash, double quote, dollar and backquote are replaced. A value
// that begins with no quote is returned unchanged. It returns false if the closing quote is missing
// or escaped, or single quotes contain another one.
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
	if escapes := len(inside) - len(strings.TrimRight(inside, `\`)); escapes%2 == 1 {
		return "", false
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`").Replace(inside), true
}
