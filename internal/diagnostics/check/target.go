package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// Target is the mesh that is checked.
type Target struct {
	// Client are the clients of the cluster; nil without one.
	Client *kube.Client
	// Control is the control plane; nil if it cannot be reached, because of ControlError.
	Control      *connect.ControlPlane
	ControlError error
	// Namespace and Revision identify the control plane. An empty Revision is all of them.
	Namespace, Revision string
	// Pre selects the checks before an installation.
	Pre bool
	// Proxy selects the checks of one pod with a sidecar, NAME or NAME.NAMESPACE. ProxyNamespace is
	// its namespace if Proxy has none.
	Proxy, ProxyNamespace string
	// DialPod connects to a port of a pod.
	DialPod func(ctx context.Context, pod *corev1.Pod, port int) (net.Conn, error)
	// Now is the time of this machine.
	Now func() time.Time
	// Timeout bounds each check. Settle is how long replicas may differ, because a change reaches
	// them one after the other.
	Timeout, Settle time.Duration

	pod *corev1.Pod // of Proxy, once found
}

// maxAnswer bounds the answers that are read.
const maxAnswer = 256 << 20

// get returns the body and the header of a GET request at a replica. Another status than 200 is an
// error, with which both are returned too. At most maxAnswer bytes are read. A redirect is not
// followed.
func get(ctx context.Context, r *connect.Replica, path string) ([]byte, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.BaseURL+path, nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := r.Transport.RoundTrip(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", path, answer.Status, strings.TrimSpace(string(body)))
	}
	return body, answer.Header, err
}

// getPod returns the body and the header of a GET request at a port of a pod, through t.DialPod.
// Another status than 200 is an error.
func (t *Target) getPod(ctx context.Context, pod *corev1.Pod, port int, path string) ([]byte, http.Header, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return t.DialPod(ctx, pod, port)
		},
	}
	defer transport.CloseIdleConnections()
	return get(ctx, &connect.Replica{Name: pod.Name, Transport: transport,
		BaseURL: fmt.Sprintf("http://localhost:%d", port)}, path)
}

// handshake does a TLS handshake with a port of a pod, and returns the state of the connection,
// with the pod's certificates. It closes the connection. Verification is as config says.
func (t *Target) handshake(ctx context.Context, pod *corev1.Pod, port int, config *tls.Config) (*tls.ConnectionState,
	error) {
	raw, err := t.DialPod(ctx, pod, port)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := conn.ConnectionState()
	return &state, nil
}

// findings collects what is wrong with single objects.
type findings []string

// add adds a finding.
func (f *findings) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// maxFindings is the number of findings that a line shows.
const maxFindings = 5

// String returns the first maxFindings findings, separated by semicolons, and the number of the
// others.
func (f findings) String() string {
	text := strings.Join(f[:min(len(f), maxFindings)], "; ")
	if more := len(f) - maxFindings; more > 0 {
		text += fmt.Sprintf("; %d more", more)
	}
	return text
}

// conclude returns Fail with the failures and warnings if there are failures, else Warn with the
// warnings, else Pass with the formatted detail.
func conclude(failures, warnings findings, format string, args ...any) outcome {
	switch {
	case len(failures) > 0:
		return fail("%s", append(slices.Clone(failures), warnings...))
	case len(warnings) > 0:
		return warn("%s", warnings)
	default:
		return pass(format, args...)
	}
}

// requestFailed returns the outcome of a check whose request to the API server has failed: Skip if
// the user has no permission for it, and otherwise Fail.
func requestFailed(err error) outcome {
	if apierrors.IsForbidden(err) {
		return skip("no permission: %v", err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fail("no answer in time: %v", err)
	}
	return fail("%v", err)
}

// needCluster returns a check that calls run if a cluster is selected (Target.Client is set).
// Otherwise its outcome is Skip, and run is not called.
func needCluster(run func(context.Context, *Target) outcome) func(context.Context, *Target) outcome {
	return func(ctx context.Context, t *Target) outcome {
		if t.Client == nil {
			return skip("no cluster is selected (--kubeconfig)")
		}
		return run(ctx, t)
	}
}

// needReplicas returns a check that calls run if the control plane is reached (Target.Control is
// set). Otherwise its outcome is Skip.
func needReplicas(run func(context.Context, *Target) outcome) func(context.Context, *Target) outcome {
	return func(ctx context.Context, t *Target) outcome {
		if t.Control == nil {
			return skip("the control plane cannot be reached")
		}
		return run(ctx, t)
	}
}

// needPods returns a check that is skipped unless replicas are pods, whose ports can be dialed.
func needPods(run func(context.Context, *Target) outcome) func(context.Context, *Target) outcome {
	return needReplicas(func(ctx context.Context, t *Target) outcome {
		if t.Client == nil || t.Control.Replicas[0].Pod == nil {
			return skip("only for a control plane that is reached through a kubeconfig")
		}
		return run(ctx, t)
	})
}
