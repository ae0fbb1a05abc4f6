// Package install puts the CNI plugin onto a node, keeps it there, and removes it at the end.
//
// The inputs are the program itself, the pod's service account and the node's network
// configuration. The outputs are the program in the node's plugin directories, a kubeconfig with
// the service account's token, and the plugin's entry as the last one in the node's configuration.
// Lost parts are restored, and the kubeconfig is rewritten with each new token. At the end entry,
// kubeconfig and program are removed, in this order.
//
// Invariants: files are replaced atomically. Other parts of the configuration are preserved. A
// configuration that is correct is not written, because others watch it too.
//
// Start with installer.go, then conflist.go.
package install
