// Package repair deals with pods that started on a node before the CNI plugin was there. Their traffic is not captured, which their
// init container istio-validation finds, so they do not come up, and would not for as long as they are.
//
// In -> out: the Pods of a node, and since when the plugin is there -> the deletion of those that are broken, for their
// controllers to make new ones, or a label on them.
//
// Law: only pods that are older than the plugin on their node are touched, so that whatever else is wrong with a pod it is
// deleted once at most and not for ever. A pod that nobody would make anew is not deleted.
//
// Start reading at repair.go.
package repair
