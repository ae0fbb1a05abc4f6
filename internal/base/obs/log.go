package obs

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// DefaultScope is the scope of everything that has no scope of its own, and the name that sets all levels.
const DefaultScope = "default"

// levelNone is above every level: nothing is logged.
const levelNone = slog.Level(100)

// LogOptions say what is logged, where and how.
type LogOptions struct {
	// Levels is "scope:level,scope:level" or just "level"; levels are none, error, warn, info, debug.
	// --log_output_level.
	Levels string
	// JSON writes one JSON object a line. --log_as_json.
	JSON bool
	Out  io.Writer
}

// Logs makes loggers. Each scope has a level of its own that may be changed at run time.
type Logs struct {
	options LogOptions
	handler slog.Handler

	mu     sync.Mutex
	levels map[string]*slog.LevelVar
	given  map[string]slog.Level // levels for scopes that do not exist yet
}

// NewLogs checks the options. It writes nothing.
func NewLogs(o LogOptions) (*Logs, error) {
	given, err := parseLevels(o.Levels)
	if err != nil {
		return nil, err
	}
	l := &Logs{options: o, levels: map[string]*slog.LevelVar{}, given: given}
	if o.JSON {
		l.handler = newJSONHandler(o.Out)
	} else {
		l.handler = &textHandler{out: o.Out, mu: new(sync.Mutex)}
	}
	return l, nil
}

func parseLevels(text string) (map[string]slog.Level, error) {
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

// Scope gives the logger of a scope, "ads" say.
func (l *Logs) Scope(name string) *slog.Logger {
	return slog.New(&scopeHandler{Handler: l.handler, level: l.level(name)}).With(scopeAttr, name)
}

func (l *Logs) level(scope string) *slog.LevelVar {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.levels[scope]
	if v == nil {
		v = new(slog.LevelVar)
		level, ok := l.given[scope]
		if !ok {
			level = l.given[DefaultScope]
		}
		v.Set(level)
		l.levels[scope] = v
	}
	return v
}

// SetLevel changes the level of a scope, or with DefaultScope of all, while the program runs.
func (l *Logs) SetLevel(scope, level string) error {
	parsed, err := parseLevel(level)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given[scope] = parsed
	for name, v := range l.levels {
		if name == scope || scope == DefaultScope {
			v.Set(parsed)
		}
	}
	return nil
}
