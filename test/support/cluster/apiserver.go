package cluster

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
)

// startEtcd starts the store without fsync: a test's data does not survive a crash of the machine.
func (c *Cluster) startEtcd(ctx context.Context) error {
	path, err := c.programs.Path(ctx, "etcd")
	if err != nil {
		return err
	}
	client, peer := "http://"+c.ports.etcd.portAddress(), "http://"+c.ports.peer.portAddress()
	c.etcd, err = startProcess(
		c.thread,
		"etcd",
		path,
		c.filePath("logs"),
		"--data-dir="+c.filePath(
			"etcd",
		),
		"--name=default",
		"--unsafe-no-fsync",
		"--log-level=warn",
		"--socket-reuse-port",
		"--listen-client-urls="+client,
		"--advertise-client-urls="+client,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster=default="+peer,
	)
	return err
}

// startAPIServer starts kube-apiserver and does not wait for it.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	path, err := c.programs.Path(ctx, "kube-apiserver")
	if err != nil {
		return err
	}
	k := c.keys
	args := []string{
		"--etcd-servers=http://" + c.ports.etcd.portAddress(),
		"--storage-media-type=application/vnd.kubernetes.protobuf",
		"--secure-port=" + strconv.Itoa(int(c.ports.api.number)),
		"--permit-port-sharing",
		"--service-cluster-ip-range=" + strings.Join(toTexts(c.net.services), ","),
		"--tls-cert-file=" + k.filePath(
			"kube-apiserver.crt",
		),
		"--tls-private-key-file=" + k.filePath("kube-apiserver.key"),
		"--client-ca-file=" + k.filePath("ca.crt"),
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + k.filePath(
			"service-account.pub",
		),
		"--service-account-signing-key-file=" + k.filePath("service-account.key"),
		"--enable-priority-and-fairness=false",
		"--profiling=false",
	}
	args = append(args, c.net.apiServerArgs()...)
	if c.net.hasNode() {
		args = append(
			args,
			"--kubelet-client-certificate="+k.filePath("admin.crt"),
			"--kubelet-client-key="+k.filePath("admin.key"),
			"--kubelet-preferred-address-types=InternalIP",
		)
	}
	if c.options.Tier == API {
		// No controller creates the service accounts that this plugin requires.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	c.apiServer, err = startProcess(
		c.thread,
		"kube-apiserver",
		path,
		c.filePath("logs"),
		append(args, c.options.APIServerArgs...)...)
	return err
}

// awaitAPIServer waits until the API server is ready and has created its initial objects.
func (c *Cluster) awaitAPIServer(ctx context.Context) error {
	client, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return awaitCondition(ctx, "the API server", []*process{c.etcd, c.apiServer}, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Config().Host+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz: %s", resp.Status)
		}
		return nil
	})
}

// StopAPIServer kills the API server as a crash does. Its address remains its own, and refuses
// connections.
func (c *Cluster) StopAPIServer() { c.apiServer.killNow() }

// StartAPIServer starts the API server again at the same address with the same data, and waits
// until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if c.apiServer.isRunning() {
		return fmt.Errorf("start the API server: it runs")
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	return c.awaitAPIServer(ctx)
}

// PauseAPIServer makes the API server hang: it accepts connections and answers nothing, until
// ResumeAPIServer.
func (c *Cluster) PauseAPIServer() error { return c.apiServer.pauseProcess() }

// ResumeAPIServer undoes PauseAPIServer.
func (c *Cluster) ResumeAPIServer() error { return c.apiServer.cmd.Process.Signal(syscall.SIGCONT) }

// filePath returns the path of something in the cluster's directory.
func (c *Cluster) filePath(names ...string) string {
	return filepath.Join(append([]string{c.dir}, names...)...)
}
