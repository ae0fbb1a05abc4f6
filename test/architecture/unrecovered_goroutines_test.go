package architecture

// notRecovered is the number of goroutines in each file that do not recover a panic themselves. A
// panic in one of them ends the process, which restarts while proxies keep their configuration,
// because their shared state may be inconsistent after a panic. Code that handles a single user's
// object or a single client's message recovers further in: conversion, decoding, one proxy's stream
// (ADR 33).
func notRecovered() map[string]int {
	return map[string]int{
		"cmd/istio-cni/install.go":                                     3,
		"cmd/istio-cni/monitoring.go":                                  1,
		"cmd/pilot-agent/main.go":                                      1,
		"internal/agent/agent.go":                                      2,
		"internal/agent/dns/server.go":                                 3,
		"internal/agent/envoy/process.go":                              1,
		"internal/agent/envoy/user.go":                                 1, // as of os/exec
		"internal/agent/parts.go":                                      1,
		"internal/agent/restart.go":                                    2,
		"internal/agent/secret/files.go":                               4,
		"internal/agent/shutdown.go":                                   2,
		"internal/diagnostics/adaptertest/run.go":                      1, // a command of a user
		"pkg/adapter/follower.go":                                      1, // callWatch recovers
		"pkg/adapter/run.go":                                           4,
		"pkg/adapter/xds.go":                                           1,
		"internal/kube/autoregister/registrar.go":                      1,
		"internal/identity/ca/reloader.go":                             1,
		"internal/identity/ca/root_publisher.go":                       1,
		"internal/identity/authority/server.go":                        5,
		"internal/kube/event/elected.go":                               1, // elections recover
		"internal/discovery/run.go":                                    17,
		"internal/diagnostics/cli/metrics.go":                          1, // a command
		"internal/diagnostics/cli/pages.go":                            1, // a command
		"internal/diagnostics/cli/wait.go":                             1, // a command
		"internal/diagnostics/connect/forward.go":                      1, // of a command
		"internal/diagnostics/localmesh/actions.go":                    1, // a mesh of one user, which ends as a whole
		"internal/diagnostics/localmesh/launch.go":                     1,
		"internal/diagnostics/localmesh/reconcile.go":                  2,
		"internal/diagnostics/localmesh/run.go":                        1,
		"internal/diagnostics/localmesh/supervisor.go":                 2,
		"internal/diagnostics/localmesh/workload.go":                   2,
		"internal/diagnostics/localmesh/control/client.go":             1, // a command
		"internal/diagnostics/localmesh/control/server.go":             3, // a mesh of one user, which ends as a whole
		"internal/diagnostics/localmesh/control/node.go":               2,
		"internal/base/netns/init.go":                                  2, // programs on one machine
		"internal/base/netns/process.go":                               1,
		"internal/base/netns/sandbox.go":                               1,
		"internal/base/netns/thread.go":                                2,
		"internal/kube/admission/clusters.go":                          2,
		"internal/kube/admission/webhooks.go":                          4,
		"internal/kube/external/clusters.go":                           1,
		"internal/kube/status/elected.go":                              2,
		"internal/identity/trustbundle/feed.go":                        2,
		"internal/xds/server/port.go":                                  1,
		"internal/ingest/registry/gatewayapi/controller/controller.go": 1,
		"internal/discovery/xds.go":                                    2,
		"internal/base/httpserver/group.go":                            1,
		"internal/base/httpserver/server.go":                           1,
		"internal/ingest/ingest.go":                                    2,
		"internal/capture/iptables/namespace.go":                       1,
		"internal/capture/iptables/probe.go":                           1,
		"internal/identity/jwks/fetcher.go":                            1,
		"internal/identity/jwks/source.go":                             1,
		"internal/ingest/registry/conform/fixture.go":                  1,
		"internal/ingest/registry/remote/clusters.go":                  1,
		"internal/ingest/registry/remote/cluster_members.go":           1,
		"internal/ingest/registry/remote/member.go":                    1,
		"internal/ingest/source/credential/clusters.go":                2,
		"internal/ingest/source/credential/access.go":                  1,
		"internal/ingest/source/credential/source.go":                  1,
		"internal/ingest/source/credential/watch.go":                   1,
		"internal/ingest/source/hostname/source.go":                    1,
		"internal/ingest/source/kube/reflectors.go":                    1,
		"internal/ingest/source/settings/settings.go":                  3,
		"internal/ingest/source/xds/link.go":                           2,
		"internal/kube/gateway/class.go":                               2,
		"internal/kube/gateway/deployer.go":                            2,
		"internal/kube/gateway/watches.go":                             1,
		"internal/kube/status/writer.go":                               4,
		"internal/kube/status/object_watches.go":                       1,
		"internal/kube/status/revision_tags.go":                        1,
		"internal/kube/status/write_loop.go":                           1,
		"internal/kube/webhook/configurations.go":                      1,
		"internal/xds/push/owner.go":                                   2,
	}
}
