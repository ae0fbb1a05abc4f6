package connect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// debugType is the type of xDS requests for debug pages.
	debugType = "istio.io/debug"
	// maxPage is the size of the largest page.
	maxPage = 256 << 20
	// debugPrefix is the path below which pages are served, and apiPrefix that of the read API.
	debugPrefix = "/debug/"
	apiPrefix   = "/api/"
	// tokenAudience and tokenSeconds are the audience and lifetime of tokens that are requested
	// from the API server.
	tokenAudience = "istio-ca"
	tokenSeconds  = 600
	// rootsConfigMap has the roots of the mesh under rootsKey, in every namespace.
	rootsConfigMap = "istio-ca-root-cert"
	rootsKey       = "root-cert.pem"
	// needsHTTP is the answer to requests that xDS does not serve.
	needsHTTP = "this needs the HTTP port of the control plane, which xDS does not serve: use --server or a kubeconfig"
)

// xdsTransport serves GET requests for debug pages and of the read API by xDS requests. Streams of
// events and other requests are answered with 501.
type xdsTransport struct {
	conn  *grpc.ClientConn
	token string
}

// openXDS returns the replica at Options.XDSAddress, the only known one (not Complete). It may read
// a token and roots from the cluster, and connects with the first request. The server's certificate
// must have the name of Options.Authority, by default istiod.NAMESPACE.svc.
func openXDS(ctx context.Context, o Options) (*ControlPlane, error) {
	token, roots, err := o.xdsCredentials(ctx)
	if err != nil {
		return nil, err
	}
	config, err := o.clientTLS(roots, cmp.Or(o.Authority, "istiod."+o.namespace()+".svc"))
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+o.XDSAddress,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxPage)))
	if err != nil {
		return nil, fmt.Errorf("--xds-address %s: %w", o.XDSAddress, err)
	}
	t := &xdsTransport{conn: conn, token: token}
	closeConn := func() { _ = conn.Close() } // nothing depends on it
	return &ControlPlane{Replicas: []*Replica{
		{Name: o.XDSAddress, Transport: t, BaseURL: "http://localhost", closeTransport: closeConn},
	}}, nil
}

// clientTLS returns the TLS settings of a client that trusts roots and expects the server's
// certificate for name. It adds the client certificate of the options, if any. It returns an error
// if roots has no certificate, or if the client certificate cannot be read.
func (o Options) clientTLS(roots []byte, name string) (*tls.Config, error) {
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12, ServerName: name}
	if !config.RootCAs.AppendCertsFromPEM(roots) {
		return nil, errors.New("the roots (--root-cert) have no certificate")
	}
	if o.CertificateFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertificateFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// AdapterTLS returns the TLS settings of a client of an adapter at host: the roots and the client
// certificate of the options. The server's certificate must be for Authority, or else host. It
// returns nil without RootsFile, because adapters on the same host need no TLS. An unreadable file
// is an error.
func (o Options) AdapterTLS(host string) (*tls.Config, error) {
	if o.RootsFile == "" {
		return nil, nil
	}
	roots, err := os.ReadFile(o.RootsFile)
	if err != nil {
		return nil, fmt.Errorf("--root-cert: %w", err)
	}
	return o.clientTLS(roots, cmp.Or(o.Authority, host))
}

// xdsCredentials returns a token and the roots that sign the server's certificate. Without a token
// file, the token is empty if there is a client certificate, else requested for the service account
// "default" in the control plane's namespace. The roots are of the file, else of that namespace's
// ConfigMap istio-ca-root-cert. An empty file is the same as none; an unreadable one is an error.
func (o Options) xdsCredentials(ctx context.Context) (token string, roots []byte, err error) {
	if o.TokenFile != "" {
		text, err := os.ReadFile(o.TokenFile)
		if err != nil {
			return "", nil, fmt.Errorf("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	if o.RootsFile != "" {
		if roots, err = os.ReadFile(o.RootsFile); err != nil {
			return "", nil, fmt.Errorf("--root-cert: %w", err)
		}
	}
	hasCaller := token != "" || o.CertificateFile != ""
	if hasCaller && len(roots) > 0 {
		return token, roots, nil
	}
	client, err := o.Client()
	if err != nil {
		return "", nil, fmt.Errorf("--xds-address without --token-file and --root-cert reads both from the cluster: %w",
			err)
	}
	defer client.HTTP.CloseIdleConnections()
	if len(roots) == 0 {
		if roots, err = client.ConfigMapKey(ctx, o.namespace(), rootsConfigMap, rootsKey); err != nil {
			return "", nil, fmt.Errorf("read the roots of the mesh: %w", err)
		}
	}
	if !hasCaller {
		seconds := int64(tokenSeconds)
		r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{tokenAudience}, ExpirationSeconds: &seconds,
		}}
		r, err := client.Kubernetes.CoreV1().ServiceAccounts(o.namespace()).CreateToken(ctx, "default", r,
			metav1.CreateOptions{})
		if err != nil {
			return "", nil, fmt.Errorf("request a token for service account %s/default: %w", o.namespace(), err)
		}
		token = r.Status.Token
	}
	return token, roots, nil
}

// RoundTrip sends a GET of a debug page or of the read API as an xDS request. Streams of events and
// other requests get 501. Errors of authentication and authorization become 401 and 403, and a page
// that is no JSON is an error text with 404. Other gRPC errors are returned.
func (t *xdsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	name, isPage := strings.CutPrefix(r.URL.RequestURI(), debugPrefix)
	if strings.HasPrefix(name, apiPrefix) {
		name, isPage = strings.TrimPrefix(name, "/"), true
	}
	if !isPage || r.Method != http.MethodGet {
		return httpResponse(r, http.StatusNotImplemented, []byte(needsHTTP)), nil
	}
	body, err := t.page(r.Context(), name)
	switch status.Code(err) {
	case codes.OK:
	case codes.Unimplemented:
		return httpResponse(r, http.StatusNotImplemented, []byte(needsHTTP)), nil
	case codes.Unauthenticated:
		return httpResponse(r, http.StatusUnauthorized, []byte(status.Convert(err).Message())), nil
	case codes.PermissionDenied:
		return httpResponse(r, http.StatusForbidden, []byte(status.Convert(err).Message())), nil
	default:
		return nil, err
	}
	if !json.Valid(body) { // the text of an error
		return httpResponse(r, http.StatusNotFound, body), nil
	}
	return httpResponse(r, http.StatusOK, body), nil
}

// page requests a debug page over xDS, and returns its body. It returns nil if the response has no
// resource. Only the first resource of the first response is read.
func (t *xdsTransport) page(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if t.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+t.token)
	}
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(t.conn).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	request := &discoveryv3.DiscoveryRequest{
		Node:    &corev3.Node{Id: "debug~0.0.0.0~pilotctl~cluster.local"},
		TypeUrl: debugType, ResourceNames: []string{name},
	}
	if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) { // Recv has the reason of io.EOF
		return nil, err
	}
	response, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if len(response.GetResources()) == 0 {
		return nil, nil
	}
	return response.GetResources()[0].GetValue(), nil
}

// httpResponse returns a response to r with the status code and the body.
func httpResponse(r *http.Request, code int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
