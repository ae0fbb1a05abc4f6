package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/gopher-lua/parse"
)

// onlyLuaJIT matches syntax that Envoy's Lua (LuaJIT 2.1) accepts and Lua 5.1 does not. This
// includes 64-bit and imaginary numbers, hexadecimal floating-point numbers, escapes in strings,
// and names with letters outside ASCII.
var onlyLuaJIT = regexp.MustCompile(
	`(?i)[0-9a-f](u?ll|i)\b|\b0x[0-9a-f]*(\.|p)|\\[xzu]|[^\x00-\x7f]`,
) //nolint:gochecknoglobals // a constant

// luaFault returns the syntax error of a Lua script, or nil and true if there is none. With an
// error, sure reports whether Envoy refuses the script too. It is false if the script contains
// syntax that LuaJIT may accept and the parser here does not.
func luaFault(text string) (fault error, sure bool) {
	if strings.HasPrefix(text, "#") { // Lua ignores such a first line
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
