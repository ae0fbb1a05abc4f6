package command

import (
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/base/obs"
)

// AddLogFlags adds Istio's log flags, which set o (default level info, as text). Flags for log
// files, callers and stack traces are hidden and accepted without effect: logs go to standard
// output, where a platform collects them.
func AddLogFlags(fs *pflag.FlagSet, o *obs.LogOptions) {
	fs.StringVar(&o.Levels, "log_output_level", "default:info",
		"minimum level per scope, as scope:level,scope:level; levels are none, error, warn, info, debug")
	fs.BoolVar(&o.JSON, "log_as_json", false, "write the log as one JSON object a line")
	for name, usage := range map[string]string{
		"log_target":           "where logs go",
		"log_caller":           "scopes that log their callers",
		"log_stacktrace_level": "levels with stack traces",
		"log_rotate":           "file to rotate",
	} {
		fs.String(name, "", usage+" (accepted for compatibility, without effect)")
		_ = fs.MarkHidden(name) // fails only for unknown flags
	}
}
