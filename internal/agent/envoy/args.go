package envoy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Settings is what Envoy's argument list is made of.
type Settings struct {
	// ConfigFile is the bootstrap; Override is YAML or JSON that Envoy merges over it, "" for none.
	ConfigFile, Override string
	Config               *meshconfig.ProxyConfig
	Levels               Levels
	// Addresses are the proxy's own.
	Addresses          []netip.Addr
	SkipDeprecatedLogs bool
	// Family is how Envoys replace each other by hot restart; nil: they do not.
	Family *Family
}

// Family is a row of Envoys of which each takes over from the one before.
type Family struct {
	// Epoch counts them from 0.
	Epoch int
	// BaseID tells the family from others of the host. The first one finds one that is free, and writes it to BaseIDFile.
	BaseID     uint64
	BaseIDFile string
}

// args are of hot restart. An Envoy that was replaced ends when it has drained for as long as that takes, and a third more, a
// second at least.
func (f *Family) args(drain time.Duration) []string {
	if f == nil {
		// Without an epoch there is no parent to take over from: the agent ends when Envoy does.
		return []string{"--disable-hot-restart"}
	}
	list := []string{"--restart-epoch", strconv.Itoa(f.Epoch), "--parent-shutdown-time-s", strconv.FormatInt(int64(max(drain*4/3, drain+time.Second)/time.Second), 10)}
	if f.Epoch == 0 {
		return append(list, "--use-dynamic-base-id", "--base-id-path", f.BaseIDFile)
	}
	return append(list, "--base-id", strconv.FormatUint(f.BaseID, 10))
}

// Args gives the argument list, without the program's name. Node and log format are in the bootstrap.
func Args(s Settings) []string {
	args := append([]string{"-c", s.ConfigFile}, s.Family.args(s.Config.GetDrainDuration().AsDuration())...)
	args = append(args,
		"--drain-time-s", strconv.FormatInt(int64(s.Config.GetDrainDuration().AsDuration()/time.Second), 10),
		// Tell every client at once, rather than ever more of them over the drain time: the pod may not have that long.
		"--drain-strategy", "immediate",
		"--local-address-ip-version", addressVersion(s.Addresses),
		// Envoy's 10 s would keep access logs of a quiet proxy from the person who waits for them.
		"--file-flush-interval-msec", strconv.FormatInt(s.Config.GetFileFlushInterval().AsDuration().Milliseconds(), 10),
		"-l", s.Levels.Default,
	)
	if size := s.Config.GetFileFlushMinSizeKb(); size > 0 {
		args = append(args, "--file-flush-min-size-kb", strconv.FormatUint(uint64(size), 10))
	}
	if len(s.Levels.Components) > 0 {
		args = append(args, "--component-log-level", strings.Join(s.Levels.Components, ","))
	}
	if s.SkipDeprecatedLogs {
		args = append(args, "--skip-deprecated-logs")
	}
	// Without the argument Envoy takes a worker for each hardware thread, which is also what 0 asks for.
	if n := s.Config.GetConcurrency().GetValue(); n > 0 {
		args = append(args, "--concurrency", strconv.FormatInt(int64(n), 10))
	}
	if s.Override != "" {
		args = append(args, "--config-yaml", s.Override)
	}
	return args
}

// addressVersion is the family of %DOWNSTREAM_LOCAL_ADDRESS% and the like: v6 only where there is no other.
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
	// Components are "component:level".
	Components []string
}

// ParseLevels reads --proxyLogLevel ("warning,misc:error") and --proxyComponentLogLevel ("misc:error"), which counts
// only where the first names no component.
func ParseLevels(both, components string) (Levels, error) {
	l := Levels{Default: "warning"}
	for part := range strings.SplitSeq(both, ",") {
		if component, level, ok := strings.Cut(part, ":"); ok {
			l.Components = append(l.Components, part)
			if component == "" || !isLevel(level) {
				return Levels{}, badLevel(part)
			}
		} else if isLevel(part) {
			l.Default = part
		} else {
			return Levels{}, badLevel(part)
		}
	}
	if len(l.Components) > 0 || components == "" {
		return l, nil
	}
	for part := range strings.SplitSeq(components, ",") {
		component, level, ok := strings.Cut(part, ":")
		if !ok || component == "" || !isLevel(level) {
			return Levels{}, badLevel(part)
		}
		l.Components = append(l.Components, part)
	}
	return l, nil
}

func badLevel(part string) error {
	return fmt.Errorf("envoy log level %q: want LEVEL or COMPONENT:LEVEL, with a level of trace, debug, info, warning, error, critical, off", part)
}

// isLevel knows the levels that Envoy's -l knows.
func isLevel(level string) bool {
	switch level {
	case "trace", "debug", "info", "warning", "warn", "error", "critical", "off":
		return true
	default:
		return false
	}
}
