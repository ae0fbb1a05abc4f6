package obs

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// DefaultScope is the scope of all log records without a scope of their own. Its level is the
// default of all scopes.
const DefaultScope = "default"

// levelNone is above every level, so that nothing is logged.
const levelNone = slog.Level(100)

// LogOptions configure levels, output and format of the log.
type LogOptions struct {
	// Levels is "scope:level,scope:level" or just "level", with the levels none, error, warn, info,
	// debug (--log_output_level).
	Levels string
	// JSON writes one JSON object per line (--log_as_json, default false).
	JSON bool
	Out  io.Writer
}

// Logs creates loggers. Each scope has its own level, which can be changed at run time.
type Logs struct {
	options LogOptions
	handler slog.Handler

	mu         sync.Mutex
	levels     map[string]*slog.LevelVar
	configured map[string]slog.Level // levels by scope, also of scopes without a logger yet
}

// NewLogs returns Logs that write to o.Out, as JSON or text. It fails if o.Levels is invalid, and
// writes nothing itself.
func NewLogs(o LogOptions) (*Logs, error) {
	given, err := parseScopeLevels(o.Levels)
	if err != nil {
		return nil, err
	}
	l := &Logs{options: o, levels: map[string]*slog.LevelVar{}, configured: given}
	if o.JSON {
		l.handler = newJSONHandler(o.Out)
	} else {
		l.handler = &textHandler{out: o.Out, mu: new(sync.Mutex)}
	}
	return l, nil
}

// parseScopeLevels parses "scope:level,…" into levels by scope; of equal scopes the last wins. A
// level without a scope, or of the scope all, is of DefaultScope, which is info by default. It
// returns an error for an unknown level.
func parseScopeLevels(text string) (map[string]slog.Level, error) {
	levels := map[string]slog.Level{DefaultScope: slog.LevelInfo}
	if text == "" {
		return levels, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		scope, name, both := strings.Cut(part, ":")
		if !both {
			scope, name = DefaultScope, part
		}
		level, err := parseLevel(name)
		if err != nil {
			return nil, fmt.Errorf("log level %q: %w", part, err)
		}
		if scope == "all" {
			scope = DefaultScope
		}
		levels[scope] = level
	}
	return levels, nil
}

// parseLevel returns the level none, error, warn, info or debug. It accepts fatal as error. Any
// other name, also in upper case, is an error.
func parseLevel(name string) (slog.Level, error) {
	switch name {
	case "none":
		return levelNone, nil
	case "fatal", "error":
		return slog.LevelError, nil
	case "warn":
		return slog.LevelWarn, nil
	case "info":
		return slog.LevelInfo, nil
	case "debug":
		return slog.LevelDebug, nil
	default:
		return 0, fmt.Errorf("unknown level %q (want none, error, warn, info or debug)", name)
	}
}

// Scope returns the logger of a scope, for example "ads". It creates the scope if there is none,
// with its configured level or else the default one.
func (l *Logs) Scope(name string) *slog.Logger {
	return slog.New(&scopeHandler{Handler: l.handler, level: l.levelOf(name)}).With(scopeAttr, name)
}

// levelOf returns the level of a scope, which it creates if there is none. Its first level is the
// configured one, else the configured level of DefaultScope, else info.
func (l *Logs) levelOf(scope string) *slog.LevelVar {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.levels[scope]
	if v == nil {
		v = new(slog.LevelVar)
		level, ok := l.configured[scope]
		if !ok {
			level = l.configured[DefaultScope]
		}
		v.Set(level)
		l.levels[scope] = v
	}
	return v
}

// SetLevel changes the level of a scope at run time, or of all existing scopes if scope is
// DefaultScope. A scope that is created later gets the level too, but a level of its own precedes
// DefaultScope's. SetLevel returns an error, and changes nothing, for an unknown level.
func (l *Logs) SetLevel(scope, level string) error {
	parsed, err := parseLevel(level)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.configured[scope] = parsed
	for name, v := range l.levels {
		if name == scope || scope == DefaultScope {
			v.Set(parsed)
		}
	}
	return nil
}
