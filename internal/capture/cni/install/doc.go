// Package install puts the CNI plugin onto a node, keeps it there, and takes it away again.
//
// In -> out: the program itself, the pod's service account and the node's network configuration -> the program in the node's
// directory of plugins, a kubeconfig with the service account's token, and an entry for the plugin at the end of the plugins of
// the node's configuration. All of it is put back when it is lost, and the kubeconfig is written anew with each new token. At the
// end the entry, the kubeconfig and the program go, in that order.
//
// Law: files appear whole, by renaming; what stands in the configuration besides the plugin's own entry stays as it is. A
// configuration that says what it should is not written, for others watch it too.
//
// Start reading at installer.go, then conflist.go.
package install
