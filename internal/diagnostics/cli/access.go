package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
)

// controlPlaneAccess contains the flags that select a control plane, and the connections to it.
type controlPlaneAccess struct {
	server string
	connect.Options
	open *connect.ControlPlane
}

// The flags that select a control plane.
const (
	serverFlag         = "server"
	xdsAddressFlag     = "xds-address"
	tokenFlag          = "token-file"
	certFlag           = "client-cert"
	keyFlag            = "client-key"
	rootsFlag          = "root-cert"
	authorityFlag      = "authority"
	kubeconfigFlag     = "kubeconfig"
	contextFlag        = "context"
	istioNamespaceFlag = "istioNamespace"
	revisionFlag       = "revision"
)

// accessFlags returns the names of the flags that select a control plane.
func accessFlags() []string {
	return append([]string{serverFlag, xdsAddressFlag, tokenFlag, certFlag, keyFlag, rootsFlag, authorityFlag,
		revisionFlag}, clusterFlags()...)
}

// clusterFlags returns the names of the flags that select a cluster, and the namespace of the
// control plane in it.
func clusterFlags() []string {
	return []string{kubeconfigFlag, contextFlag, istioNamespaceFlag}
}

// addFlags registers on fs the flags that select and authenticate to a control plane, from --server
// to --revision. Their values are stored in x when fs is parsed.
func (x *controlPlaneAccess) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&x.server, "server", "",
		"HTTP port of the control plane, or those of all replicas separated by commas "+
			"(default: the pods in the cluster of the kubeconfig; without one "+connect.DefaultAddress+")")
	fs.StringVar(&x.XDSAddress, "xds-address", "",
		"xDS port of the control plane with TLS, instead of --server; not for wait, diff and --watch of changes")
	fs.StringVar(&x.TokenFile, "token-file", "",
		"file with a Kubernetes or workload token for --xds-address (default: requested from the cluster)")
	fs.StringVar(&x.CertificateFile, "client-cert", "",
		"file with a client certificate for --xds-address, instead of a token")
	fs.StringVar(&x.KeyFile, "client-key", "", "file with the key of --client-cert")
	fs.StringVar(&x.RootsFile, "root-cert", "",
		"file with the roots of the mesh for --xds-address (default: read from the cluster)")
	fs.StringVar(&x.Authority, "authority", "",
		"name in the control plane's certificate for --xds-address (default istiod.NAMESPACE.svc)")
	fs.StringVarP(&x.Kubeconfig, "kubeconfig", "c", "",
		"kubeconfig of the cluster (default: KUBECONFIG, or ~/.kube/config)")
	fs.StringVar(&x.Context, "context", "", "context of the kubeconfig")
	fs.StringVarP(&x.Namespace, "istioNamespace", "i", connect.DefaultNamespace, "namespace of the control plane")
	fs.StringVarP(&x.Revision, "revision", "r", "", "revision of the control plane (default: all)")
}

// options returns the options that the flags set. --server may have several addresses, separated by
// commas.
func (x *controlPlaneAccess) options() connect.Options {
	o := x.Options
	if x.server != "" {
		for text := range strings.SplitSeq(x.server, ",") {
			o.Servers = append(o.Servers, serverAddress(text))
		}
	}
	return o
}

// serverAddress returns HOST:PORT for an element of --server. That may also be an http URL without
// a path, or a host alone, to which it adds the default port. Text with any other slash is returned
// without a check.
func serverAddress(text string) string {
	text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "http://"), "/")
	if _, _, err := net.SplitHostPort(text); err != nil && !strings.Contains(text, "/") {
		_, port, _ := net.SplitHostPort(connect.DefaultAddress) // a constant
		return net.JoinHostPort(strings.Trim(text, "[]"), port)
	}
	return text
}

// controlPlane returns the control plane, which it opens at the first call and after close, and
// then reuses. Opening it is limited to timeout. An error is not remembered: the next call tries
// again.
func (x *controlPlaneAccess) controlPlane(ctx context.Context) (*connect.ControlPlane, error) {
	if x.open != nil {
		return x.open, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	x.open, err = connect.Open(ctx, x.options())
	return x.open, err
}

// close ends the connections, if there are any. The next call of controlPlane opens new ones.
func (x *controlPlaneAccess) close() {
	if x.open != nil {
		x.open.Close()
		x.open = nil
	}
}

// statusError is the error of a replica that answers with a status of 400 or above.
type statusError struct {
	url, status, text string
	code              int
}

// Error returns the URL, the status and the text.
func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %s: %s", e.url, e.status, e.text)
}

// isNotFound reports whether a replica answered 404, because it does not know a proxy.
func isNotFound(err error) bool {
	var failed *statusError
	return errors.As(err, &failed) && failed.code == http.StatusNotFound
}

// readReplica returns the body of the response of one replica to a GET request. A status of 400 or
// above is a *statusError. A body longer than maxReport is cut off without an error. A request may
// take at most timeout.
func readReplica(ctx context.Context, r *connect.Replica, path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	target := r.BaseURL + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Transport: r.Transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the control plane (%s): %w", r.Name, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxReport))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", target, err)
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return nil, &statusError{target, answer.Status, reasonText(text), answer.StatusCode}
	}
	return text, nil
}

// reasonText returns the reason in the body of an error: the detail of a problem of the read API, or else
// the whole text.
func reasonText(body []byte) string {
	var problem struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &problem) == nil && problem.Detail != "" {
		return problem.Detail
	}
	return strings.TrimSpace(string(body))
}
