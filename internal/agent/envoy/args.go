package envoy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Settings are the inputs of Envoy's argument list.
type Settings struct {
	// ConfigFile is the bootstrap. Override is YAML or JSON that Envoy merges over it, "" if there
	// is none.
	ConfigFile, Override string
	Config               *meshconfig.ProxyConfig
	Levels               Levels
	// Addresses are the proxy's own addresses.
	Addresses []netip.Addr
	// LogDeprecations lets Envoy log warnings about deprecated fields.
	LogDeprecations bool
	// HotRestart configures hot restart. If nil, it is disabled.
	HotRestart *HotRestart
}

// HotRestart identifies one Envoy in a sequence of Envoys, each taking over from its predecessor.
type HotRestart struct {
	// Epoch is the position in the sequence, from 0.
	Epoch int
	// BaseID separates the shared memory of this sequence from others of the host. The Envoy of
	// epoch 0 selects a free one and writes it to BaseIDFile.
	BaseID     uint64
	BaseIDFile string
}

// commandLine returns the arguments of hot restart, or the argument that disables it if f is nil.
// In epoch 0 Envoy chooses a base ID and writes it to f.BaseIDFile; later epochs use f.BaseID. An
// Envoy that was replaced exits after the drain time plus a third of it, at least one second.
func (f *HotRestart) commandLine(drain time.Duration) []string {
	if f == nil {
		// Without hot restart the agent exits when Envoy does.
		return []string{"--disable-hot-restart"}
	}
	shutdown := max(drain*4/3, drain+time.Second)
	list := []string{
		"--restart-epoch", strconv.Itoa(f.Epoch),
		"--parent-shutdown-time-s", strconv.FormatInt(int64(shutdown/time.Second), 10),
	}
	if f.Epoch == 0 {
		return append(list, "--use-dynamic-base-id", "--base-id-path", f.BaseIDFile)
	}
	return append(list, "--base-id", strconv.FormatUint(f.BaseID, 10))
}

// BuildArgs returns Envoy's arguments for s without the program's name. Connections drain at once,
// not gradually. Without s.HotRestart, hot restart is disabled, and without concurrency, Envoy
// chooses the number of workers. Node and log format are in the bootstrap.
func BuildArgs(s Settings) []string {
	args := append([]string{"-c", s.ConfigFile}, s.HotRestart.commandLine(s.Config.GetDrainDuration().AsDuration())...)
	args = append(args,
		"--drain-time-s", strconv.FormatInt(int64(s.Config.GetDrainDuration().AsDuration()/time.Second), 10),
		// Drain all connections at once instead of gradually over the drain time, which the pod may
		// not have.
		"--drain-strategy", "immediate",
		"--local-address-ip-version", addressVersion(s.Addresses),
		// Envoy's default of 10 s would delay the access logs of a quiet proxy.
		"--file-flush-interval-msec",
		strconv.FormatInt(s.Config.GetFileFlushInterval().AsDuration().Milliseconds(), 10),
		"-l", s.Levels.Default,
		// A custom bootstrap or an override may have fields of another version of Envoy, which logs
		// them.
		"--allow-unknown-static-fields",
	)
	if size := s.Config.GetFileFlushMinSizeKb(); size > 0 {
		args = append(args, "--file-flush-min-size-kb", strconv.FormatUint(uint64(size), 10))
	}
	if len(s.Levels.Components) > 0 {
		args = append(args, "--component-log-level", strings.Join(s.Levels.Components, ","))
	}
	if !s.LogDeprecations {
		args = append(args, "--skip-deprecated-logs")
	}
	// Without the argument, as with 0, Envoy starts one worker per hardware thread.
	if n := s.Config.GetConcurrency().GetValue(); n > 0 {
		args = append(args, "--concurrency", strconv.FormatInt(int64(n), 10))
	}
	if s.Override != "" {
		args = append(args, "--config-yaml", s.Override)
	}
	return args
}

// addressVersion returns the IP version of addresses in access logs such as
// %DOWNSTREAM_LOCAL_ADDRESS%: v6 if the proxy has only IPv6 addresses, otherwise v4.
func addressVersion(addresses []netip.Addr) string {
	for _, a := range addresses {
		if a.Is4() {
			return "v4"
		}
	}
	if len(addresses) == 0 {
		return "v4"
	}
	return "v6"
}

// Levels are Envoy's log levels.
type Levels struct {
	Default string
	// Components have the form "component:level".
	Components []string
}

// ParseLevels parses --proxyLogLevel ("warning,misc:error") and --proxyComponentLogLevel
// ("misc:error"). The second is ignored if the first contains component levels. The default level
// is the last one without a component in both, warning if there is none. An unknown or empty level,
// and an empty component, are errors, but components as a whole may be empty.
func ParseLevels(both, components string) (Levels, error) {
	l := Levels{Default: "warning"}
	for part := range strings.SplitSeq(both, ",") {
		if component, level, ok := strings.Cut(part, ":"); ok {
			l.Components = append(l.Components, part)
			if component == "" || !isLevel(level) {
				return Levels{}, invalidLevel(part)
			}
		} else if isLevel(part) {
			l.Default = part
		} else {
			return Levels{}, invalidLevel(part)
		}
	}
	if len(l.Components) > 0 || components == "" {
		return l, nil
	}
	for part := range strings.SplitSeq(components, ",") {
		component, level, ok := strings.Cut(part, ":")
		if !ok || component == "" || !isLevel(level) {
			return Levels{}, invalidLevel(part)
		}
		l.Components = append(l.Components, part)
	}
	return l, nil
}

// invalidLevel returns the error for a part of a log level option that is invalid.
func invalidLevel(part string) error {
	return fmt.Errorf("envoy log level %q: want LEVEL or COMPONENT:LEVEL, "+
		"with a level of trace, debug, info, warning, error, critical, off", part)
}

// isLevel reports whether Envoy's -l accepts the level.
func isLevel(level string) bool {
	switch level {
	case "trace", "debug", "info", "warning", "warn", "error", "critical", "off":
		return true
	default:
		return false
	}
}
