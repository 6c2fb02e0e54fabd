;; RUN: wast --assert default --snapshot tests/snapshots %

;; The most minimal component.
(component)
