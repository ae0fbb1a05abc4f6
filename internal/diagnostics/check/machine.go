package check

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// The files of a virtual machine, relative to the agent's working directory. The first four are
// written by `pilotctl workload entry configure`, certificateFile by the agent.
const (
	environmentFile = "var/lib/istio/envoy/cluster.env"
	meshFile        = "etc/istio/config/mesh"
	rootsFile       = "etc/certs/root-cert.pem"
	tokenFile       = "var/run/secrets/tokens/istio-token"
	certificateFile = "etc/certs/cert-chain.pem"
)

// ProxyUser is the user of the agent and Envoy on virtual machines.
const ProxyUser = "istio-proxy"

// Categories of the checks of a virtual machine.
const (
	fileCategory    = "files"
	clockCategory   = "clock"
	connectCategory = "connection"
	captureCategory = "capture"
)

// Machine is a virtual machine whose part in the mesh is checked, from within.
type Machine struct {
	// Root is the agent's working directory, usually /.
	Root string
	// ReadyURL answers 200 when Envoy is ready.
	ReadyURL string
	// UserID returns the numeric ID of a user of the machine, or an error.
	UserID func(name string) (uint32, error)
	// LookupHost returns the addresses of a name.
	LookupHost func(ctx context.Context, name string) ([]string, error)
	// Dial connects to an address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// HTTP is the client for ReadyURL.
	HTTP *http.Client
	Now  func() time.Time
	// Timeout bounds each check.
	Timeout time.Duration

	// discovery is the address of the control plane, once mesh.yaml has been read, and roots are
	// the certificates in root-cert.pem.
	discovery string
	roots     *x509.CertPool
}

// Run makes the checks of the machine in order. If a file that later checks need is missing or
// invalid, these are skipped.
func (m *Machine) Run(ctx context.Context) []Result {
	t := &Target{Timeout: m.Timeout, Now: m.Now}
	return t.runAll(ctx, m.checks())
}

// checks returns the checks of a virtual machine: files, clock, connection to the control plane,
// and capture. Later checks of files are skipped if the machine's files, mesh.yaml or the roots are
// missing or invalid. The connection is not checked if the control plane's name does not resolve.
func (m *Machine) checks() []check {
	of := func(run func(context.Context) outcome) func(context.Context, *Target) outcome {
		return func(ctx context.Context, _ *Target) outcome { return run(ctx) }
	}
	return []check{
		{category: fileCategory, condition: "the user " + ProxyUser + " exists", run: of(m.userExists),
			hint: "install the package meshpilot-agent, or: useradd --system --user-group " + ProxyUser},
		{category: fileCategory, condition: "the machine's files are there and readable by " + ProxyUser,
			run: of(m.filesReadable), required: true,
			hint: "copy the files of `pilotctl workload entry configure` to the machine, with the owner " + ProxyUser},
		{category: fileCategory, condition: "mesh.yaml is valid", run: of(m.meshValid), required: true,
			hint: "configure the machine again: pilotctl workload entry configure"},
		{category: fileCategory, condition: "the roots of the mesh are valid", run: of(m.rootsValid), required: true,
			hint: "configure the machine again: pilotctl workload entry configure"},
		{category: fileCategory, condition: "the machine has a valid token or certificate", run: of(m.credentialValid),
			hint: "write a new token: pilotctl workload entry configure, and copy istio-token within its lifetime (--tokenDuration)"},
		{category: fileCategory, condition: "the token is readable by its owner only", run: of(m.tokenPrivate),
			hint: "chmod 0600 /" + tokenFile},
		{category: fileCategory, condition: "the agent can write its directories", run: of(m.directoriesWritable),
			hint: "systemd-tmpfiles --create meshpilot-agent.conf, or chown these directories to " + ProxyUser},
		{category: clockCategory, condition: "the clock agrees with the control plane's token", run: of(m.clockAgrees),
			hint: "synchronize the clock (NTP): certificates and tokens are valid within times"},
		{category: connectCategory, condition: "the control plane's name resolves", run: of(m.nameResolves),
			required: true,
			hint:     "add the line of the file hosts to /etc/hosts, or --ingressIP to pilotctl workload entry configure"},
		{category: connectCategory, condition: "the control plane answers with a certificate of the mesh's roots",
			run:  of(m.controlPlaneAnswers),
			hint: "firewalls must permit TCP to the control plane's port 15012; after a rotation of the root, configure the machine again"},
		{category: captureCategory, condition: "Envoy is ready", run: of(m.envoyReady),
			hint: "systemctl status meshpilot-agent, journalctl -u meshpilot-agent"},
		{category: captureCategory, condition: "outbound traffic is captured", run: of(m.outboundCaptured),
			hint: "systemctl restart meshpilot-capture; the kernel needs the modules of nftables or iptables"},
	}
}

// path returns the path of a file of the machine.
func (m *Machine) path(name string) string { return filepath.Join(m.Root, name) }

// userExists warns if the machine does not have the user of the agent, and otherwise passes.
func (m *Machine) userExists(context.Context) outcome {
	id, err := m.UserID(ProxyUser)
	if err != nil {
		return warn("%v: the agent must run as 1337, whose traffic is not captured either", err)
	}
	return pass("its ID is %d", id)
}

// filesReadable fails if one of the files that the agent requires is missing, or if the agent's
// user may not read it. If the user is unknown, only existence is checked.
func (m *Machine) filesReadable(context.Context) outcome {
	var wrong findings
	id, userErr := m.UserID(ProxyUser)
	for _, name := range []string{environmentFile, meshFile, rootsFile} {
		info, err := os.Stat(m.path(name))
		switch {
		case err != nil:
			wrong.add("%v", err)
		case userErr == nil && !permits(info, id, 0o4):
			wrong.add("%s is not readable by %s", m.path(name), ProxyUser)
		}
	}
	return conclude(wrong, nil, "below %s", m.Root)
}

// directoriesWritable fails if etc/certs or etc/istio/proxy, into which the agent writes, is
// missing or is not writable for the agent's user. It is skipped if the user is unknown.
func (m *Machine) directoriesWritable(context.Context) outcome {
	id, err := m.UserID(ProxyUser)
	if err != nil {
		return skip("%v", err)
	}
	var wrong findings
	for _, name := range []string{"etc/certs", "etc/istio/proxy"} {
		info, err := os.Stat(m.path(name))
		switch {
		case err != nil:
			wrong.add("%v", err)
		case !permits(info, id, 0o2):
			wrong.add("%s is not writable for %s", m.path(name), ProxyUser)
		}
	}
	return conclude(wrong, nil, "etc/certs and etc/istio/proxy")
}

// permits reports whether the file mode grants a user the permission (4 to read, 2 to write): as
// the owner of the file, or as everyone else. Groups are not considered. An unknown owner is taken
// to be the user.
func permits(info os.FileInfo, id uint32, permission os.FileMode) bool {
	owner, known := ownerOf(info)
	if !known || owner == id {
		return info.Mode()&(permission<<6) != 0
	}
	return info.Mode()&permission != 0
}
