package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/diagnostics/redact"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// bugReport collects the files of a report.
type bugReport struct {
	*pageClient
	out     string
	proxies []string
	maximum uint16
	lines   int64

	files    map[string][]byte
	failures []string
}

// bugReportCommand returns the command that writes an archive about a problem (bugReport.run), by
// default bug-report.tar.gz.
func (a *pageClient) bugReportCommand() *cobra.Command {
	b := &bugReport{pageClient: a}
	c := &cobra.Command{
		Use: "bug-report", Args: cobra.NoArgs,
		Short: "Write an archive with the state of the control plane and of proxies, without secrets",
		Long: "bug-report writes a gzipped tar archive with the debug pages and metrics of each replica, the configuration of proxies as the\n" +
			"control plane sent it, and through a kubeconfig also the pods, events, webhooks and logs of the control plane, and what the\n" +
			"Envoys of the proxies have (configuration, clusters, statistics, logs).\n\n" +
			"Secrets of Kubernetes are not read. Private keys, tokens, passwords and the values of fields and variables with such names are\n" +
			"replaced. Names of hosts, namespaces, users' configuration and paths of requests in logs remain: read the archive before you\n" +
			"send it. What could not be read is listed in errors.txt.",
		Example: "  pilotctl bug-report\n  pilotctl bug-report --proxy productpage-v1.bookinfo --out report.tar.gz",
		RunE:    func(c *cobra.Command, _ []string) error { return b.run(c) },
	}
	fs := c.Flags()
	fs.StringVar(&b.out, "out", "bug-report.tar.gz", "file to write, readable only by its owner; it must not exist")
	fs.StringSliceVar(&b.proxies, "proxy", nil, "proxies to include, NAME.NAMESPACE (default: those with errors first)")
	fs.Uint16Var(&b.maximum, "proxies", 10, "number of proxies to include without --proxy") //nolint:mnd // the default
	fs.Int64Var(&b.lines, "log-lines", 5000, "last lines of each log to include")           //nolint:mnd // the default
	return c
}

// run collects all files and writes the archive to b.out, readable by its owner only. It returns an
// error if b.out exists or cannot be written; after a failed write an incomplete file remains. Data
// that could not be read are no error but listed in errors.txt. It prints the numbers of files and
// of failures.
func (b *bugReport) run(c *cobra.Command) error {
	b.files, b.failures = map[string][]byte{}, nil
	file, err := os.OpenFile(b.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	b.add("pilotctl-version.txt", []byte(obs.ReadBuild().String()), nil)
	control, err := b.controlPlane(c.Context())
	if err != nil {
		b.add("control-plane", nil, err)
	} else {
		b.collectReplicas(c.Context(), control)
		b.collectProxies(c)
	}
	if b.options().UsesKubernetes() {
		err := b.withCluster(c, func(ctx context.Context, client *kube.Client) error {
			b.collectCluster(ctx, client)
			return nil
		})
		b.add("cluster", nil, err)
	}
	if err := b.write(file); err != nil {
		return fmt.Errorf("write %s: %w", b.out, err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s has %d files; %d could not be read (errors.txt)\n", b.out, len(b.files),
		len(b.failures))
	return err
}

// add adds a file to the archive, with its secrets replaced. If err is set, it is listed in
// errors.txt instead. A nil body adds nothing. Files that end in .json are redacted as JSON.
func (b *bugReport) add(name string, body []byte, err error) {
	switch {
	case err != nil:
		b.failures = append(b.failures, name+": "+redact.Text(err.Error()))
	case body == nil:
	case strings.HasSuffix(name, ".json"):
		b.files[name] = redact.JSON(body)
	default:
		b.files[name] = []byte(redact.Text(string(body)))
	}
}

// reportedPages returns the paths of the pages that are read from each replica's HTTP port.
func reportedPages() []string {
	return []string{
		"/debug/syncz", "/debug/problemz", "/debug/nackz", "/debug/clusterz", "/debug/configz", "/debug/registryz",
		"/debug/networkz",
		"/debug/mesh", "/debug/push_status", "/debug/connections", "/debug/scopez", "/debug/cachez",
		"/debug/endpointShardz",
		"/api/v1/registries", "/metrics", "/version", "/ready",
	}
}

// collectReplicas adds the reportedPages of all replicas, as "replicas/REPLICA/PAGE". Pages that
// are JSON get the extension .json. A page that cannot be read is listed in errors.txt.
func (b *bugReport) collectReplicas(ctx context.Context, control *connect.ControlPlane) {
	for _, r := range control.Replicas {
		for _, page := range reportedPages() {
			body, err := readReplica(ctx, r, page, nil)
			name := path.Join("replicas", fileName(r.Name), path.Base(page))
			if json.Valid(body) {
				name += ".json"
			}
			b.add(name, body, err)
		}
	}
}

// collectProxies adds the configuration that proxies were sent and, if they are reached through a
// kubeconfig, their Envoys' pages. Without --proxy it selects at most b.maximum proxies, proxies
// with rejections first. Errors are added to the report; after one, the other pages of that Envoy
// are left out. With --proxy the proxies are not listed.
func (b *bugReport) collectProxies(c *cobra.Command) {
	names := b.proxies
	if len(names) == 0 {
		list, err := b.readProxies(c)
		if err != nil {
			b.add("proxies", nil, err)
			return
		}
		slices.SortStableFunc(list, func(x, y proxyState) int {
			return min(len(y.RefusedText()), 1) - min(len(x.RefusedText()), 1)
		})
		for _, s := range list[:min(len(list), int(b.maximum))] {
			names = append(names, s.Proxy)
		}
	}
	for _, name := range names {
		var body json.RawMessage
		err := b.readPage(c, "config_dump", url.Values{"proxyID": {b.proxyName(name)}, "include_eds": {""}}, &body)
		b.add(path.Join("proxies", fileName(name), "sent.json"), body, err)
		if !b.options().UsesKubernetes() {
			continue
		}
		x, err := b.openAdmin(name, "")
		if err != nil {
			b.add(path.Join("proxies", fileName(name)), nil, err)
			continue
		}
		for page, as := range map[string]string{
			"/config_dump?include_eds": "envoy.json", "/clusters?format=json": "clusters.json",
			"/server_info":    "server_info.json",
			"/stats?usedonly": "stats.txt", "/certs": "certs.json",
		} {
			body, err := x.get(c.Context(), page)
			b.add(path.Join("proxies", fileName(name), as), body, err)
			if err != nil {
				break // it does not answer
			}
		}
		x.close()
	}
}

// collectCluster adds lists of objects as JSON: pods, events, services and deployments of the
// control plane's namespace, and all namespaces, nodes and webhook configurations. It also adds the
// version of the API server and the logs of the control plane's pods, of --revision if set, without
// init containers. Errors are added to the report, and do not end it.
func (b *bugReport) collectCluster(ctx context.Context, client *kube.Client) {
	core := client.Kubernetes.CoreV1()
	lists := map[string]func() (any, error){
		"pods":       func() (any, error) { return core.Pods(b.Namespace).List(ctx, metav1.ListOptions{}) },
		"events":     func() (any, error) { return core.Events(b.Namespace).List(ctx, metav1.ListOptions{}) },
		"services":   func() (any, error) { return core.Services(b.Namespace).List(ctx, metav1.ListOptions{}) },
		"namespaces": func() (any, error) { return core.Namespaces().List(ctx, metav1.ListOptions{}) },
		"nodes":      func() (any, error) { return core.Nodes().List(ctx, metav1.ListOptions{}) },
		"deployments": func() (any, error) {
			return client.Kubernetes.AppsV1().Deployments(b.Namespace).List(ctx, metav1.ListOptions{})
		},
		"mutating-webhooks": func() (any, error) {
			return client.Kubernetes.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx,
				metav1.ListOptions{})
		},
		"validating-webhooks": func() (any, error) {
			return client.Kubernetes.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx,
				metav1.ListOptions{})
		},
		"version": func() (any, error) { return client.Kubernetes.Discovery().ServerVersionWithContext(ctx) },
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		object, err := lists[name]()
		var body []byte
		if err == nil {
			body, err = json.Marshal(object)
		}
		b.add("cluster/"+name+".json", body, err)
	}
	pods, err := connect.Pods(ctx, client, b.Namespace, b.Revision)
	b.add("cluster/logs", nil, err)
	for i := range pods {
		for _, container := range pods[i].Spec.Containers {
			b.addLog(ctx, client, &pods[i], container.Name)
		}
	}
}

// addLog adds the last b.lines lines of the log of a container as "cluster/logs/POD/CONTAINER.log".
// If it was restarted, it also adds those before the last restart, as "CONTAINER-previous.log". A
// log that cannot be read is an error in the report.
func (b *bugReport) addLog(ctx context.Context, client *kube.Client, pod *corev1.Pod, container string) {
	restarted := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.RestartCount > 0
	})
	for _, previous := range []bool{false, true} {
		if previous && !restarted {
			return
		}
		name := path.Join("cluster/logs", pod.Name, container)
		if previous {
			name += "-previous"
		}
		body, err := client.Kubernetes.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Container: container, Previous: previous, TailLines: &b.lines,
		}).DoRaw(ctx)
		b.add(name+".log", body, err)
	}
}

// fileName returns a name for a file: it has no slashes or colons.
func fileName(name string) string { return strings.NewReplacer("/", "_", ":", "_").Replace(name) }

// write writes a gzipped tar archive with all files, sorted by name, below bug-report/ and readable
// by their owner only. It sorts b.failures and adds errors.txt with them to b.files. It does not
// close w.
func (b *bugReport) write(w io.Writer) error {
	slices.Sort(b.failures)
	b.files["errors.txt"] = []byte(strings.Join(b.failures, "\n") + "\n")
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		header := &tar.Header{Name: "bug-report/" + name, Mode: 0o600, Size: int64(len(b.files[name])), ModTime: now,
			Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(b.files[name]); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zipped.Close()
}
