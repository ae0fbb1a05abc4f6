package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/gopher-lua/parse"
)

// onlyLuaJIT are notations that Envoy's Lua (LuaJIT 2.1) has and Lua 5.1 has not: numbers of 64 bits and imaginary ones, floating hexadecimal
// ones, and escapes in strings.
// So has it names with other letters than those of ASCII.
var onlyLuaJIT = regexp.MustCompile(`(?i)[0-9a-f](u?ll|i)\b|\b0x[0-9a-f]*(\.|p)|\\[xzu]|[^\x00-\x7f]`) //nolint:gochecknoglobals // a constant

// luaFault says what is wrong with the syntax of a Lua script, nil for nothing. It is sure if it was found by rules that Envoy has too;
// else a script that means something to Envoy may be read wrongly here.
func luaFault(text string) (fault error, sure bool) {
	if strings.HasPrefix(text, "#") { // Lua passes over such a first line
		text = "--" + text
	}
	_, err := parse.Parse(strings.NewReader(text), "")
	if err == nil {
		return nil, true
	}
	var at *parse.Error
	switch {
	case errors.As(err, &at) && at.Pos.Line == parse.EOF:
		err = fmt.Errorf("at its end: %s", at.Message)
	case at != nil:
		err = fmt.Errorf("line %d, near %q: %s", at.Pos.Line, at.Token, at.Message)
	}
	return err, !onlyLuaJIT.MatchString(text)
}
