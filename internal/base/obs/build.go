package obs

import (
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
)

// Version is the release of this source, equal to the version of the charts. Proxies and operators
// see it as the control plane's version.
const Version = "0.6.0"

// IstioLevel is the release of Istio whose API and protocol meshpilot implements. The agent reports
// it as ISTIO_VERSION: proxyVersion of EnvoyFilters is matched against it, and other control planes
// generate configuration for that release.
const IstioLevel = "1.31.0"

// Build is the build information of a binary.
type Build struct {
	Version       string `json:"version"`
	GitRevision   string `json:"revision"`
	GolangVersion string `json:"golang_version"`
	BuildStatus   string `json:"status"`
	GitTag        string `json:"tag"`
}

// String returns the build in Istio's form for /version, which istioctl parses: version, revision
// and status.
func (b Build) String() string { return b.Version + "-" + b.GitRevision + "-" + b.BuildStatus }

// ServeHTTP writes String.
func (b Build) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, b.String()) // the client went away
}

// ReadBuild returns the build information that the Go toolchain embeds into the binary. Without it,
// GitRevision is "unknown". Uncommitted changes make BuildStatus "Modified" instead of "Clean".
func ReadBuild() Build {
	b := Build{
		Version: Version, GitRevision: "unknown", GolangVersion: runtime.Version(),
		BuildStatus: "Clean", GitTag: "v" + Version,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.GitRevision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			b.BuildStatus = "Modified"
		}
	}
	return b
}
