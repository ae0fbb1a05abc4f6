package check

// Categories of checks.
const (
	apiCategory          = "kubernetes-api"
	permissionCategory   = "permissions"
	kindCategory         = "kinds"
	controlPlaneCategory = "control-plane"
	webhookCategory      = "webhooks"
	certificateCategory  = "certificates"
	clusterCategory      = "remote-clusters"
	dnsCategory          = "dns"
	proxiesCategory      = "proxies"
	podCategory          = "pod"
)

// The checks of more than one table.
var (
	apiServerCheck = check{category: apiCategory, condition: "the API server answers",
		run: needCluster(apiServerAnswers), all: true,
		hint: "check the kubeconfig and its context (--kubeconfig, --context), and the network to the API server"}
	dnsCheck = check{category: dnsCategory, condition: "the cluster's DNS runs", run: needCluster(dnsRuns),
		hint: "kubectl get pods -n kube-system -l k8s-app=kube-dns"}
)

// healthChecks returns the checks of a running mesh, by category: API server, permissions, kinds,
// control plane, webhooks, certificates, remote clusters, DNS and proxies. If the API server does
// not answer, the rest is skipped. Checks that need a cluster or replicas are skipped without.
func (t *Target) healthChecks() []check {
	return []check{
		apiServerCheck,
		{category: permissionCategory, condition: "this user can read the control plane",
			run:  needCluster(canReadControlPlane),
			hint: "grant these permissions in the namespace of the control plane; without them some checks are skipped"},
		{category: kindCategory, condition: "the kinds are installed in versions that are read",
			run:  needCluster(kindsInstalled),
			hint: "install the chart of the same release: helm upgrade istio-base"},
		{category: controlPlaneCategory, condition: "its pods run and are ready", run: needCluster(podsReady),
			hint: "kubectl describe pod and kubectl logs of the pods of the control plane"},
		{category: controlPlaneCategory, condition: "its Service has ready endpoints",
			run:  needCluster(serviceHasEndpoints),
			hint: "the selector of the Service must match the labels of the control plane's pods, which must be ready"},
		{category: controlPlaneCategory, condition: "no container is near its limits", run: needCluster(limitsSuffice),
			hint: "raise resources.limits of the control plane, or limit what proxies see with Sidecar objects"},
		{category: controlPlaneCategory, condition: "clocks agree", run: clocksAgree,
			hint: "synchronize the clocks of the nodes (NTP): certificates and tokens are valid within times"},
		{category: controlPlaneCategory, condition: "every replica answers", run: replicasAnswer, required: true,
			hint: "a port-forward to the pod must be permitted and the pod must listen; or name its HTTP port with --server"},
		{category: controlPlaneCategory, condition: "the replicas have the same version",
			run:  needReplicas(versionsAgree),
			hint: "finish the upgrade: kubectl rollout status deployment/istiod"},
		{category: controlPlaneCategory, condition: "the replicas agree on the configuration",
			run:  needReplicas(replicasAgree),
			hint: "look for problems of the sources in the log of the replica that differs; restart it if they differ for minutes"},
		{category: controlPlaneCategory, condition: "no configuration object has errors", run: needReplicas(noProblems),
			hint: "pilotctl problems"},
		{category: webhookCategory, condition: "webhooks have a valid CA bundle", run: needCluster(caBundlesValid),
			hint: "the control plane writes the caBundle when it runs with permission to change webhook configurations; see its log"},
		{category: webhookCategory, condition: "the webhook port has a certificate of that bundle",
			run:  needPods(webhookCertificate),
			hint: "the certificate of the control plane must be signed by the CA bundle of its webhooks; restart it if the authority has changed"},
		{category: webhookCategory, condition: "the API server can have a pod injected",
			run:  needCluster(injectionWorks),
			hint: "the API server must reach port 15017 of the control plane (network policies, firewalls of private clusters)"},
		{category: webhookCategory, condition: "the API server can have an object validated",
			run:  needCluster(validationWorks),
			hint: "the API server must reach port 15017 of the control plane (network policies, firewalls of private clusters)"},
		{category: certificateCategory, condition: "the roots are valid", run: needCluster(rootsValid),
			hint: "rotate the root: add the new root to the trust anchors first, then sign with it"},
		{category: certificateCategory, condition: "every namespace has the roots", run: needCluster(rootsPublished),
			hint: "the leader of the control plane writes the ConfigMap istio-ca-root-cert; see its log and its permissions"},
		{category: certificateCategory, condition: "the signing certificates are valid",
			run:  needReplicas(signersValid),
			hint: "renew the intermediate in the Secret cacerts"},
		{category: certificateCategory, condition: "the xDS port has a certificate of the roots",
			run:  needPods(xdsCertificate),
			hint: "proxies refuse the control plane: its certificate must be signed by the roots in istio-ca-root-cert"},
		{category: clusterCategory, condition: "all clusters are in sync", run: needReplicas(clustersSynced),
			hint: "pilotctl remote-clusters; the Secret with the kubeconfig must be current, and the API server of the cluster reachable"},
		dnsCheck,
		{category: dnsCategory, condition: "the control plane's name resolves", run: needCluster(dnsResolves),
			hint: "proxies connect to that name: check the Service of the control plane and the DNS of the cluster"},
		{category: proxiesCategory, condition: "no proxy refuses its configuration", run: needReplicas(nothingRefused),
			hint: "pilotctl nacks"},
		{category: proxiesCategory, condition: "no proxy is behind", run: needReplicas(proxiesSynced),
			hint: "pilotctl proxy-status; a proxy that does not acknowledge is overloaded or unreachable"},
		{category: proxiesCategory, condition: "the Envoy versions are supported", run: needReplicas(versionsSupported),
			hint: "restart the workloads, so that they are injected with the proxy of this release"},
	}
}

// preChecks returns the checks before an installation: API server, permissions, kinds, the
// revision, webhooks that are left over, and DNS. If the API server does not answer, the rest is
// skipped.
func (t *Target) preChecks() []check {
	return []check{
		apiServerCheck,
		{category: apiCategory, condition: "the Kubernetes version is supported", run: needCluster(kubernetesSupported),
			hint: "upgrade the cluster"},
		{category: permissionCategory, condition: "this user can install the charts", run: needCluster(canInstall),
			hint: "installing takes the permissions of cluster-admin"},
		{category: kindCategory, condition: "installed kinds have versions that are read",
			run:  needCluster(installedKindsCurrent),
			hint: "upgrade the CustomResourceDefinitions with the chart istio-base"},
		{category: controlPlaneCategory, condition: "the revision is not installed yet", run: needCluster(revisionFree),
			hint: "this is an upgrade; install another revision beside it to move workloads one by one"},
		{category: webhookCategory, condition: "no webhook of a removed control plane is left",
			run:  needCluster(noOrphanedWebhooks),
			hint: "delete the webhook configuration: with failurePolicy Fail no pod starts in the namespaces that it selects"},
		dnsCheck,
	}
}

// proxyChecks returns the checks of one pod with a proxy. If the API server does not answer, the
// pod does not run or it has no proxy, the rest is skipped.
func (t *Target) proxyChecks() []check {
	return []check{
		apiServerCheck,
		{category: podCategory, condition: "the pod runs", run: needCluster(podRuns), required: true,
			hint: "kubectl describe pod"},
		{category: podCategory, condition: "it has a proxy", run: needCluster(podInjected), required: true,
			hint: "label its namespace or its pod for injection (istio-injection=enabled, istio.io/rev), and create it again"},
		{category: podCategory, condition: "its traffic is captured", run: needCluster(podCaptured),
			hint: "kubectl logs of istio-init, or of the node's istio-cni; the node needs the kernel modules of iptables or nftables"},
		{category: podCategory, condition: "the proxy's container is healthy", run: needCluster(proxyHealthy),
			hint: "kubectl logs POD -c istio-proxy; raise its limits with sidecar.istio.io/proxyMemoryLimit"},
		{category: podCategory, condition: "the proxy is ready", run: needCluster(proxyReady),
			hint: "kubectl logs POD -c istio-proxy"},
		{category: podCategory, condition: "it is connected and has accepted its configuration",
			run:  needReplicas(podSynced),
			hint: "pilotctl proxy-status NAME, pilotctl nacks"},
		{category: podCategory, condition: "its certificate is valid", run: needCluster(podCertificate),
			hint: "kubectl logs POD -c istio-proxy for errors of the certificate authority"},
		{category: podCategory, condition: "its Envoy version is supported", run: needCluster(podEnvoyVersion),
			hint: "restart the workload, so that it is injected with the proxy of this release"},
		{category: podCategory, condition: "its clock agrees", run: needCluster(podClock),
			hint: "synchronize the clock of the node (NTP)"},
	}
}
