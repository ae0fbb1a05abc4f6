package kubelet

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// runCheck executes a probe or a hook once. Requests are sent from the node, as by a real kubelet.
func (p *process) runCheck(ctx context.Context, h corev1.ProbeHandler) error {
	switch {
	case h.Exec != nil:
		return p.checkExec(ctx, h.Exec)
	case h.HTTPGet != nil:
		return p.checkHTTP(ctx, h.HTTPGet)
	case h.TCPSocket != nil:
		port, err := p.resolvePort(h.TCPSocket.Port)
		if err != nil {
			return err
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(p.probeHost(h.TCPSocket.Host), port))
		if err != nil {
			return err
		}
		return conn.Close()
	case h.GRPC != nil:
		return p.checkGRPC(ctx, h.GRPC)
	}
	return errors.New("the probe has no action")
}

func (p *process) checkExec(ctx context.Context, h *corev1.ExecAction) error {
	out, err := p.commandInside(ctx, h.Command).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func (p *process) checkHTTP(ctx context.Context, h *corev1.HTTPGetAction) error {
	port, err := p.resolvePort(h.Port)
	if err != nil {
		return err
	}
	scheme := "http"
	if h.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodGet,
		scheme+"://"+net.JoinHostPort(p.probeHost(h.Host), port),
		http.NoBody,
	)
	if err != nil {
		return err
	}
	if req.URL, err = req.URL.Parse(h.Path); err != nil {
		return err
	}
	req.Header.Set("User-Agent", "kube-probe/"+p.container.pod.k.Version)
	for _, header := range h.HTTPHeaders {
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			req.Host = header.Value
		}
		req.Header.Set(header.Name, header.Value)
	}
	client := &http.Client{
		// Certificates are not verified, as in a kubelet.
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		}, //nolint:gosec // see above
		CheckRedirect: staysAtHost,
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return nil
}

// staysAtHost follows redirects to the same host; others count as success.
func staysAtHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() || len(via) > 10 {
		return http.ErrUseLastResponse
	}
	return nil
}

func (p *process) checkGRPC(ctx context.Context, h *corev1.GRPCAction) error {
	address := net.JoinHostPort(p.probeHost(""), strconv.Itoa(int(h.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	req := &healthpb.HealthCheckRequest{}
	if h.Service != nil {
		req.Service = *h.Service
	}
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, req)
	if err != nil {
		return err
	}
	if resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("its status is %s", resp.GetStatus())
	}
	return nil
}

// probeHost returns the host of a probe: the Pod, unless the probe sets another one.
func (p *process) probeHost(said string) string {
	if said != "" {
		return said
	}
	return p.container.pod.primaryIP().String()
}

// resolvePort returns the number of a port, which may be named.
func (p *process) resolvePort(port intstr.IntOrString) (string, error) {
	if port.Type == intstr.Int {
		return port.String(), nil
	}
	for _, named := range p.container.spec.Ports {
		if named.Name == port.StrVal {
			return strconv.Itoa(int(named.ContainerPort)), nil
		}
	}
	if _, err := strconv.ParseUint(port.StrVal, 10, 16); err != nil {
		return "", fmt.Errorf("container %s has no port %q", p.container.spec.Name, port.StrVal)
	}
	return port.StrVal, nil
}
