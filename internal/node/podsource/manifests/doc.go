// Package manifests is a source of pods: directories and files of manifests, like those of the
// kubelet's static pods, watched for changes.
//
// It is level-triggered. It always delivers the whole set of pods that should run, and the files
// with errors. The receiver compares the set with what runs. If a change was missed, the next look
// finds it: events only start a look, each look reads all paths, and some looks start without an
// event.
//
// A running pod must not end because of a half-written file. So a change is accepted only when two
// looks in a row are equal. Then the following rules apply:
//
//   - A file is one unit. If anything in it is wrong, the syntax or a pod's request, it is a
//     Problem, and the pods of its last good version stay in the set. The same applies to a file
//     that is empty or cannot be read, and to a link that leads nowhere.
//   - When a file is removed, its pods leave the set.
//   - If a directory does not exist or cannot be listed, the pods of its files stay. The same
//     applies to a file that was named, if its directory does not exist.
//   - A pod that is in two files is taken from the first of them, in the order of the paths and
//     then by name. It is a Problem of the other file.
//
// The pods that a broken file had before the start are not known. Until it is repaired, the set is
// Partial, and no running pod should be stopped because it is not in the set.
//
// In a directory, the files *.yaml, *.yml and *.json are read, but no subdirectories and no hidden
// files. Links are followed, so a mounted ConfigMap works, which is replaced by renaming a link.
// UIDs are those of podspec.UID: the object's own, or a digest of its content.
package manifests
