// Package treatment plans one run of "paddock state verify", convert or repair: from the names of
// files to the doctor's findings and the files to be written. Found makes the state of a kubelet of
// its files, and Upgrade predicts what the start of another kubelet does on them.
//
// It only reads and plans. It writes nothing: a Plan is shown to a person first, and
// internal/node/replacement writes its files. Errors name the flag or the file that is wrong and
// what to do.
package treatment
