;; RUN: wast --assert default --snapshot tests/snapshots %

(assert_invalid
  (component $$esl
    (component
      (export "c t.*************")
      (export "00AG")
      (component
        (export "c 3@EGG*****+*****e $$qq")
      )
      (component
        (export "q**")
        (export "00AGG554M******+*****e 4$qq")
      )
      (component
        (export "q**")
        (export "dojgn-ejs9-nd188")
      )
      (component
        (export "q")
      )
      (component
        (export "c 3@E*******************")
        (import "sdg-q12")
      )
      (component
        (export "c t.*************")
        (export "00AG")
        (component
          (export "c 3@EGG*****+*****e $$qq")
        )
        (component
          (export "q**")
          (export "dojgn-ejs9-nd188")
        )
        (component
          (export "q")
        )
        (component
          (export "c 3@E*******************")
          (import "bsdew2-sdbsdb")
        )
        (component
          (export "c=t.*************")
          (export "00AG")
          (component
            (export "alskgn-mbnaj4-a33i5nf")
            (export "dojgn-ejs9-nd188")
          )
          (component
            (export "q")
          )
          (component
            (export "c 3@E*******************")
            (import "jsjsjs")
          )
          (component
            (export "q")
          )
          (component
            (export "c 3@E*******************")
            (import "anonmm-x23foinas-ASDOJASD")
          )
          (component
            (export "c t.****0*********")
            (export "00AG")
            (component
              (export "c 3@EGG*****+*****e $$qq")
            )
            (component
              (export "q**")
              (export "dojgn-ejs9-nd188")
            )
            (component
              (export "q")
            )
            (component
              (export "c 3@E*******************")
              (import "bsdew2-sdbsdb")
            )
            (component
              (export "c=t.*************")
              (export "00AG")
              (component
                (export "alskgn-mbnaj4-a33i5nf")
                (export "dojgn-ejs9-nd188")
              )
              (component
                (export "q")
              )
              (component
                (export "afhinds-T39OIDN-f1jsj11")
                (import "sf-gqo3ngin23ogin13g-bvcad")
              )
              (component
                (export "EGG-y-GG-qq")
                (export "agds-ASF-TT-yy")
              )
              (component
                (export "q")
              )
              (component
                (export "b 3@E*******************")
                (import "bsdew2-sdbsdb")
              )
              (component
                (export "c 0.*************")
                (export "00AGGWGle A*$$qq")
              )
              (component)
            )
            (component
              (export "q")
            )
            (component
              (export "c 3@E*********GG$qq**")
              (export "dojgn-ejs9-nd188")
            )
            (component
              (export "q")
            )
            (component
              (export "c 3@E************[******")
              (import "bsdew2-sdbsdb")
            )
            (component
              (export "c t.*************")
              (export "00AGGGGle *$$qq")
            )
            (component)
          )
          (component
            (export "q")
          )
          (component
            (export "c 3@E$*************7777777777777777777777777777777777777777777MM~MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM777777777777777777777777777777777777777777*****")
            (import "00e*$$qq")
          )
          (component
            (export "EGG-y-GG-qq")
            (export "0+AGGG.Gle $$qq")
          )
          (component
            (export "q")
          )
          (component
            (export "c 3@E*******************")
            (import "00A$qq")
          )
          (component
            (export "c t.*************")
            (export "GGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG00AGGGGle *$$qq")
          )
          (component)
        )
        (component
          (export "q")
        )
        (component
          (export "c 3@E*******************")
          (import "15AG:GG!le*$$qq")
        )
        (component
          (export "c t.*")
          (component
            (export "c 3@EGGGG$qq**")
            (export "bsdew2-sdbsdb")
          )
          (component
            (export "c t.********)*eleo &m Nx2GGGGle*$$qq")
          )
          (component
            (export "c 1.*************")
            (export "00AGGGGle A*$$qq")
          )
          (component)
        )
        (component
          (export "q")
        )
        (component
          (export "c Gle $$qq")
        )
        (component
          (export "q")
        )
        (component
          (export "c 3@E*******************")
          (import "sdg-q12")
        )
        (component
          (export "c t.*************")
          (export "00AG")
          (component
            (export "c 3@EGG*****+*****e $$qq")
          )
          (component
            (export "q**")
            (export "dojgn-ejs9-nd188")
          )
          (component
            (export "q")
          )
          (component
            (export "c 3@E*******************")
            (import "bsdew2-sdbsdb")
          )
          (component
            (export "c=t.*************")
            (export "00AG")
            (component
              (export "alskgn-mbnaj4-a33i5nf")
              (export "dojgn-ejs9-nd188")
            )
            (component
              (export "q")
            )
            (component
              (export "c 3@E*******************")
              (import "jsjsjs")
            )
            (component
              (export "q")
            )
            (component
              (export "c 3@E*******************")
              (import "bsdew2-sdbsdb")
            )
            (component
              (export "c t.*************")
              (export "0*************")
              (import "bsdew2-sdbsdb")
            )
            (component
              (export "c t.*************")
              (export "00AG")
              (component
                (export "c 3@EGG*****+*****e $$qq")
              )
              (component
                (export "q**")
                (export "00AGG554M******+*****e 4$qq")
              )
              (component
                (export "q**")
                (export "dojgn-ejs9-nd188")
              )
              (component
                (export "q")
              )
              (component
                (export "c 3@E*******************")
                (import "sdg-q12")
              )
              (component
                (export "c t.*************")
                (export "00AG")
                (component
                  (export "c 3@EGG*****+*****e $$qq")
                )
                (component
                  (export "q**")
                  (export "dojgn-ejs9-nd188")
                )
                (component
                  (export "q")
                )
                (component
                  (export "c 3@E*******************")
                  (import "bsdew2-sdbsdb")
                )
                (component
                  (export "c=t.*************")
                  (export "00AG")
                  (component
                    (export "alskgn-mbnaj4-a33i5nf")
                    (export "dojgn-ejs9-nd188")
                  )
                  (component
                    (export "q")
                  )
                  (component
                    (export "c 3@E*******************")
                    (import "jsjsjs")
                  )
                  (component
                    (export "q")
                  )
                  (component
                    (export "c 3@E*******************")
                    (import "anonmm-x23foinas-ASDOJASD")
                  )
                  (component
                    (export "c t.****0*********")
                    (export "00AG")
                    (component
                      (export "c 3@EGG*****+*****e $$qq")
                    )
                    (component
                      (export "q**")
                      (export "dojgn-ejs9-nd188")
                    )
                    (component
                      (export "q")
                    )
                    (component
                      (export "c 3@E*******************")
                      (import "bsdew2-sdbsdb")
                    )
                    (component
                      (export "c=t.*************")
                      (export "00AG")
                      (component
                        (export "alskgn-mbnaj4-a33i5nf")
                        (export "dojgn-ejs9-nd188")
                      )
                      (component
                        (export "q")
                      )
                      (component
                        (export "afhinds-T39OIDN-f1jsj11")
                        (import "sf-gqo3ngin23ogin13g-bvcad")
                      )
                      (component
                        (export "EGG-y-GG-qq")
                        (export "agds-ASF-TT-yy")
                      )
                      (component
                        (export "q")
                      )
                      (component
                        (export "b 3@E*******************")
                        (import "bsdew2-sdbsdb")
                      )
                      (component
                        (export "c 0.*************")
                        (export "00AGGWGle A*$$qq")
                      )
                      (component)
                    )
                    (component
                      (export "q")
                    )
                    (component
                      (export "c 3@E*********GG$qq**")
                      (export "dojgn-ejs9-nd188")
                    )
                    (component
                      (export "q")
                    )
                    (component
                      (export "c 3@E************[******")
                      (import "bsdew2-sdbsdb")
                    )
                    (component
                      (export "c t.*************")
                      (export "00AGGGGle *$$qq")
                    )
                    (component)
                  )
                  (component
                    (export "q")
                  )
                  (component
                    (export "c 3@E$*************7777777777777777777777777777777777777777777MM~MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM777777777777777777777777777777777777777777*****")
                    (import "00e*$$qq")
                  )
                  (component
                    (export "EGG-y-GG-qq")
                    (export "0+AGGG.Gle $$qq")
                  )
                  (component
                    (export "q")
                  )
                  (component
                    (export "c 3@E*******************")
                    (import "00A$qq")
                  )
                  (component
                    (export "c t.*************")
                    (export "GGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG00AGGGGle *$$qq")
                  )
                  (component)
                )
                (component
                  (export "q")
                )
                (component
                  (export "c 3@E*******************")
                  (import "15AG:GG!le*$$qq")
                )
                (component
                  (export "c .t*")
                  (component
                    (export "c 3@EGGGG$qq**")
                    (export "bsdew2-sdbsdb")
                  )
                  (component
                    (export "c t.********)*eleo &m Nx2GGGGle*$$qq")
                  )
                  (component
                    (export "c 1.*************")
                    (export "00AGGGGle A*$$qq")
                  )
                  (component)
                )
                (component
                  (export "q")
                )
                (component
                  (export "c Gle $$qq")
                )
                (component
                  (export "q")
                )
                (component
                  (export "c 3@E*******************")
                  (import "sdg-q12")
                )
                (component
                  (export "c t.*************")
                  (export "00AG")
                  (component
                    (export "c 3@EGG*****+*****e $$qq")
                  )
                  (component
                    (export "q**")
                    (export "dojgn-ejs9-nd188")
                  )
                  (component
                    (export "q")
                  )
                  (component
                    (export "c 3@E*******************")
                    (import "bsdew2-sdbsdb")
                  )
                  (component
                    (export "c=t.*************")
                    (export "00AG")
                    (component
                      (export "alskgn-mbnaj4-a33i5nf")
                      (export "dojgn-ejs9-nd188")
                    )
                    (component
                      (export "q")
                    )
                    (component
                      (export "c 3@E*******************")
                      (import "jsjsjs")
                    )
                    (component
                      (export "q")
                    )
                    (component
                      (export "c 3@E*******************")
                      (import "bsdew2-sdbsdb")
                    )
                    (component
                      (export "c t.*************")
                      (export "00AG")
                      (component
                        (export "c 3@EGG*****+*****e $$qq")
                      )
                      (component
                        (export "q**")
                        (export "dojgn-ejs9-nd188")
                      )
                      (component
                        (export "q")
                      )
                      (component
                        (export "c 3@E*******************")
                        (import "bsdew2-sdbsdb")
                      )
                      (component
                        (export "c=t.*************")
                        (export "00AG")
                        (component
                          (export "alskgn-mbnaj4-a33i5nf")
                          (export "dojgn-ejs9-nd188")
                        )
                        (component
                          (export "q")
                        )
                        (component
                          (export "afhinds-T39OIDN-f1jsj11")
                          (import "sf-gqo3ngin23ogin13g-bvcad")
                        )
                        (component
                          (export "EGG-y-GG-qq")
                          (export "00AGGG.Gle '$$qq")
                        )
                        (component
                          (export "q")
                        )
                        (component
                          (export "b 3@E*******************")
                          (import "bsdew2-sdbsdb")
                        )
                        (component
                          (export "c 0.*************")
                          (export "00AGGWGle A*$$qq")
                        )
                        (component)
                      )
                      (component
                        (export "q")
                      )
                      (component
                        (export "c 3@E*********GG$qq**")
                        (export "dojgn-ejs9-nd188")
                      )
                      (component
                        (export "q")
                      )
                      (component
                        (export "c 3@E************[******")
                        (import "bsdew2-sdbsdb")
                      )
                      (component
                        (export "c t.*************")
                        (export "00AGGGGle *$$qq")
                      )
                      (component)
                    )
                    (component
                      (export "q")
                    )
                    (component
                      (export "c 6@E$*************7777777777777777777777777777777777777777777MM~MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM777777777777777777777777777777777777777777*****")
                      (import "00e*$$qq")
                    )
                    (component
                      (export "EGG-y-GG-qq")
                      (export "00AGGG.Gle $$qq")
                    )
                    (component
                      (export "q")
                    )
                    (component
                      (export "c 3@E*******************")
                      (import "bsdew2-sdbsdb")
                    )
                    (component
                      (export "c *****")
                      (export "00AG")
                      (component
                        (export "c 3@EGG*****+*****e $$qq")
                      )
                      (component
                        (export "q**")
                        (export "00AGG554M******+*****e 4$qq")
                      )
                      (component
                        (export "q**")
                        (export "dojgn-ejs9-nd188")
                      )
                      (component
                        (export "q")
                      )
                      (component
                        (export "c 3@E*******************")
                        (import "sdg-q12")
                      )
                      (component
                        (export "c t.*************")
                        (export "00AG")
                        (component
                          (export "c 3@EGG*****+*****e $$qq")
                        )
                        (component
                          (export "q**")
                          (export "dojgn-ejs9-nd188")
                        )
                        (component
                          (export "q")
                        )
                        (component
                          (export "c 3@E*******************")
                          (import "bsdew2-sdbsdb")
                        )
                        (component
                          (export "c=t.*************")
                          (export "00AG")
                          (component
                            (export "alskgn-mbnaj4-a33i5nf")
                            (export "dojgn-ejs9-nd188")
                          )
                          (component
                            (export "q")
                          )
                          (component
                            (export "c 3@E*******************")
                            (import "jsjsjs")
                          )
                          (component
                            (export "q")
                          )
                          (component
                            (export "c 3@E*******************")
                            (import "anonmm-x23foinas-ASDOJASD")
                          )
                          (component
                            (export "c t.****0*********")
                            (export "00AG")
                            (component
                              (export "c 3@EGG*****+*****e $$qq")
                            )
                            (component
                              (export "q**")
                              (export "dojgn-ejs9-nd188")
                            )
                            (component
                              (export "q")
                            )
                            (component
                              (export "c 3@E*******************")
                              (import "bsdew2-sdbsdb")
                            )
                            (component
                              (export "c=t.*************")
                              (export "00AG")
                              (component
                                (export "alskgn-mbnaj4-a33i5nf")
                                (export "dojgn-ejs9-nd188")
                              )
                              (component
                                (export "q")
                              )
                              (component
                                (export "afhinds-T39OIDN-f1jsj11")
                                (import "sf-gqo3ngin23ogin13g-bvcad")
                              )
                              (component
                                (export "EGG-y-GG-qq")
                                (export "agds-ASF-TT-yy")
                              )
                              (component
                                (export "q")
                              )
                              (component
                                (export "b 3@E*******************")
                                (import "bsdew2-sdbsdb")
                              )
                              (component
                                (export "c 0.*************")
                                (export "00AGGWGle A*$$qq")
                              )
                              (component)
                            )
                            (component
                              (export "q")
                            )
                            (component
                              (export "c 3@E*********GG$qq**")
                              (export "dojgn-ejs9-nd188")
                            )
                            (component
                              (export "q")
                            )
                            (component
                              (export "c 3@E************[******")
                              (import "bsdew2-sdbsdb")
                            )
                            (component
                              (export "c t.*************")
                              (export "00AGGGGle *$$qq")
                            )
                            (component)
                          )
                          (component
                            (export "q")
                          )
                          (component
                            (export "c 3@E$*************7777777777777777777777777777777777777777777MM~MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM777777777777777777777777777777777777777777*****")
                            (import "00e*$$qq")
                          )
                          (component
                            (export "EGG-y-GG-qq")
                            (export "0+AGGG.Gle $$qq")
                          )
                          (component
                            (export "q")
                          )
                          (component
                            (export "c 3@E*******************")
                            (import "00A$qq")
                          )
                          (component
                            (export "c t.*************")
                            (export "GGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG00AGGGGle *$$qq")
                          )
                          (component)
                        )
                        (component
                          (export "q")
                        )
                        (component
                          (export "c 3@E*******************")
                          (import "15AG:GG!le*$$qq")
                        )
                        (component
                          (export "c t.*")
                          (component
                            (export "c 3@EGGGG$qq**")
                            (export "bsdew2-sdbsdb")
                          )
                          (component
                            (export "c t.********)*eleo &m Nx2GGGGle*$$qq")
                          )
                          (component
                            (export "c 1.*************")
                            (export "00AGGGGle A*$$qq")
                          )
                          (component)
                        )
                        (component
                          (export "q")
                        )
                        (component
                          (export "c Gle $$qq")
                        )
                        (component
                          (export "q")
                        )
                        (component
                          (export "c 3@E*******************")
                          (import "sdg-q12")
                        )
                        (component
                          (export "c t.*************")
                          (export "00AG")
                          (component
                            (export "c 3@EGG*****+*****e $$qq")
                          )
                          (component
                            (export "q**")
                            (export "dojgn-ejs9-nd188")
                          )
                          (component
                            (export "q")
                          )
                          (component
                            (export "c 3@E*******************")
                            (import "bsdew2-sdbsdb")
                          )
                          (component
                            (export "c=t.*************")
                            (export "00AG")
                            (component
                              (export "alskgn-mbnaj4-a33i5nf")
                              (export "dojgn-ejs9-nd188")
                            )
                            (component
                              (export "q")
                            )
                            (component
                              (export "c 3@E*******************")
                              (import "jsjsjs")
                            )
                            (component
                              (export "q")
                            )
                            (component
                              (export "c 3@E*******************")
                              (import "bsdew2-sdbsdb")
                            )
                            (component
                              (export "c t.*************")
                              (export "0*************")
                              (import "bsdew2-sdbsdb")
                            )
                            (component
                              (export "c t.*************")
                              (export "00AG")
                              (component
                                (export "c 3@EGG*****+*****e $$qq")
                              )
                              (component
                                (export "q**")
                                (export "00AGG554M******+*****e 4$qq")
                              )
                              (component
                                (export "q**")
                                (export "dojgn-ejs9-nd188")
                              )
                              (component
                                (export "q")
                              )
                              (component
                                (export "c 3@E*******************")
                                (import "sdg-q12")
                              )
                              (component
                                (export "c t.*************")
                                (export "00AG")
                                (component
                                  (export "c 3@EGG*****+*****e $$qq")
                                )
                                (component
                                  (export "q**")
                                  (export "dojgn-ejs9-nd188")
                                )
                                (component
                                  (export "q")
                                )
                                (component
                                  (export "c 3@E*******************")
                                  (import "bsdew2-sdbsdb")
                                )
                                (component
                                  (export "c=t.*************")
                                  (export "00AG")
                                  (component
                                    (export "alskgn-mbnaj4-a33i5nf")
                                    (export "dojgn-ejs9-nd188")
                                  )
                                  (component
                                    (export "q")
                                  )
                                  (component
                                    (export "c 3@E*******************")
                                    (import "jsjsjs")
                                  )
                                  (component
                                    (export "q")
                                  )
                                  (component
                                    (export "c 3@E*******************")
                                    (import "anonmm-x23foinas-ASDOJASD")
                                  )
                                  (component
                                    (export "c t.****0*********")
                                    (export "00AG")
                                    (component
                                      (export "c 3@EGG*****+*****e $$qq")
                                    )
                                    (component
                                      (export "q**")
                                      (export "dojgn-ejs9-nd188")
                                    )
                                    (component
                                      (export "q")
                                    )
                                    (component
                                      (export "c 3@E*******************")
                                      (import "bsdew2-sdbsdb")
                                    )
                                    (component
                                      (export "c=t.*************")
                                      (export "00AG")
                                      (component
                                        (export "alskgn-mbnaj4-a33i5nf")
                                        (export "dojgn-ejs9-nd188")
                                      )
                                      (component
                                        (export "q")
                                      )
                                      (component
                                        (export "afhinds-T39OIDN-f1jsj11")
                                        (import "sf-gqo3ngin23ogin13g-bvcad")
                                      )
                                      (component
                                        (export "EGG-y-GG-qq")
                                        (export "agds-ASF-TT-yy")
                                      )
                                      (component
                                        (export "q")
                                      )
                                      (component
                                        (export "b 3@E*******************")
                                        (import "bsdew2-sdbsdb")
                                      )
                                      (component
                                        (export "c 0.*************")
                                        (export "00AGGWGle A*$$qq")
                                      )
                                      (component)
                                    )
                                    (component
                                      (export "q")
                                    )
                                    (component
                                      (export "c 3@E*********GG$qq**")
                                      (export "dojgn-ejs9-nd188")
                                    )
                                    (component
                                      (export "q")
                                    )
                                    (component
                                      (export "c 3@E************[******")
                                      (import "bsdew2-sdbsdb")
                                    )
                                    (component
                                      (export "c t.*************")
                                      (export "00AGGGGle *$$qq")
                                    )
                                    (component)
                                  )
                                  (component
                                    (export "q")
                                  )
                                  (component
                                    (export "c 3@E$*************7777777777777777777777777777777777777777777MM~MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM777777777777777777777777777777777777777777*****")
                                    (import "00e*$$qq")
                                  )
                                  (component
                                    (export "EGG-y-GG-qq")
                                    (export "0+AGGG.Gle $$qq")
                                  )
                                  (component
                                    (export "q")
                                  )
                                  (component
                                    (export "c 3@E*******************")
                                    (import "00A$qq")
                                  )
                                  (component
                                    (export "c t.*************")
                                    (export "GGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG00AGGGGle *$$qq")
                                  )
                                  (component)
                                )
                                (component
                                  (export "q")
                                )
                                (component
                                  (export "c 3@E*******************")
                                  (import "15AG:GG!le*$$qq")
                                )
                                (component
                                  (export "c .t*")
                                  (component
                                    (export "c 3@EGGGG$qq**")
                                    (export "bsdew2-sdbsdb")
                                  )
                                  (component
                                    (export "c t.********)*eleo &m Nx2GGGGle*$$qq")
                                  )
                                  (component
                                    (export "c 1.*************")
                                    (export "00AGGGGle A*$$qq")
                                  )
                                  (component)
                                )
                                (component
                                  (export "q")
                                )
                                (component
                                  (export "c Gle $$qq")
                                )
                                (component
                                  (export "q")
                                )
                                (component
                                  (export "c 3@E*******************")
                                  (import "sdg-q12")
                                )
                                (component
                                  (export "c t.*************")
                                  (export "00AG")
                                  (component
                                    (export "c 3@EGG*****+*****e $$qq")
                                  )
                                  (component
                                    (export "q**")
                                    (export "dojgn-ejs9-nd188")
                                  )
                                  (component
                                    (export "q")
                                  )
                                  (component
                                    (export "c 3@E*******************")
                                    (import "bsdew2-sdbsdb")
                                  )
                                  (component
                                    (export "c=t.*************")
                                    (export "00AG")
                                    (component
                                      (export "alskgn-mbnaj4-a33i5nf")
                                      (export "dojgn-ejs9-nd188")
                                    )
                                    (component
                                      (export "q")
                                    )
                                    (component
                                      (export "c 3@E*******************")
                                      (import "jsjsjs")
                                    )
                                    (component
                                      (export "q")
                                    )
                                    (component
                                      (export "c 3@E*******************")
                                      (import "bsdew2-sdbsdb")
                                    )
                                    (component
                                      (export "c t.*************")
                                      (export "00AG")
                                      (component
                                        (export "c 3@EGG*****+*****e $$qq")
                                      )
                                      (component
                                        (export "q**")
                                        (export "dojgn-ejs9-nd188")
                                      )
                                      (component
                                        (export "q")
                                      )
                                      (component
                                        (export "c 3@E*******************")
                                        (import "bsdew2-sdbsdb")
                                      )
                                      (component
                                        (export "c=t.*************")
                                        (export "00AG")
                                        (component
                                          (export "alskgn-mbnaj4-a33i5nf")
                                          (export "dojgn-ejs9-nd188")
                                        )
                                        (component
                                          (export "q")
                                        )
                                        (component
                                          (export "afhinds-T39OIDN-f1jsj11")
                                          (import "sf-gqo3ngin23ogin13g-bvcad")
                                        )
                                        (component
                                          (export "EGG-y-GG-qq")
                                          (export "00AGGG.Gle '$$qq")
                                        )
                                        (component
                                          (export "q")
                                        )
                                        (component
                                          (export "b 3@E*******************")
                                          (import "bsdew2-sdbsdb")
                                        )
                                        (component
                                          (export "c 0.*************")
                                          (export "00AGGWGle A*$$qq")
                                        )
                                        (component)
                                      )
                                      (component
                                        (export "q")
                                      )
                                      (component
                                        (export "c 3@E*********GG$qq**")
                                        (export "dojgn-ejs9-nd188")
                                      )
                                      (component
                                        (export "q")
                                      )
                                      (component
                                        (export "c 3@E************[******")
                                        (import "bsdew2-sdbsdb")
                                      )
                                      (component
                                        (export "c t.*************")
                                        (export "00AGGGGle *$$qq")
                                      )
                                      (component)
                                    )
                                    (component
                                      (export "q")
                                    )
                                    (component
                                      (export "c 6@E$*************7777777777777777777777777777777777777777777MM~MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM777777777777777777777777777777777777777777*****")
                                      (import "00e*$$qq")
                                    )
                                    (component
                                      (export "EGG-y-GG-qq")
                                      (export "00AGGG.Gle $$qq")
                                    )
                                    (component
                                      (export "q")
                                    )
                                    (component
                                      (export "c 3@E*******************")
                                      (import "bsdew2-sdbsdb")
                                    )
                                    (component
                                      (export "c 1.*************")
                                      (export "00AGGGGle A*$$qq")
                                    )
                                    (component)
                                  )
                                  (component
                                    (export "q")
                                  )
                                  (component
                                    (export "c 4@E****\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\*****GG$qq**")
                                    (export "dojgn-ejs9-nd188")
                                  )
                                  (component
                                    (export "q")
                                  )
                                  (component
                                    (export "c 3@E*******************")
                                    (import "00CGGGGle*$$qq")
                                  )
                                  (component
                                    (export "c t.*************")
                                    (export "00AGGGGle *$$qq")
                                  )
                                  (component)
                                )
                                (component
                                  (export "q")
                                )
                                (component
                                  (export "c 3@E*******77777777777777777777777777777777GG)le 0AGGGGle $$qq")
                                )
                                (component
                                  (export "q")
                                )
                                (component
                                  (export "c 3@E*******************")
                                  (import "00CGGGGle*$$qq")
                                )
                                (component
                                  (export "c t.*************")
                                  (export "00AGGGGl4@E****\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\*****GG$qq**")
                                  (export "dojgn-ejs9-nd188")
                                )
                                (component
                                  (export "q")
                                )
                                (component
                                  (export "c 3@E*******************")
                                  (import "00CGGGGle*$$qq")
                                )
                                (component
                                  (export "c t.*************")
                                  (export "00AGGGGle *$$qq")
                                )
                                (component)
                              )
                              (component
                                (export "q")
                              )
                              (component
                                (export "c 3@E*******77777777777777777777777777777777GG)le 0AGGGGle $$qq")
                              )
                              (component
                                (export "q")
                              )
                              (component
                                (export "c 3@E*******************")
                                (import "00CGGGGle*$$qq")
                              )
                              (component
                                (export "c t.*************")
                                (export "00AGGGGle *$$qq")
                              )
                              (component)
                            )
                            (component
                              (export "q")
                            )
                            (component
                              (export "c 3@E***0AG")
                              (component
                                (export "c 3@EGG*****+*****e $$qq")
                              )
                              (component
                                (export "q**")
                                (export "dojgn-ejs9-nd188")
                              )
                              (component
                                (export "q")
                              )
                              (component
                                (export "c 3@E*******************")
                                (import "bsdew2-sdbsdb")
                              )
                              (component
                                (export "c=t.*************")
                                (export "00AG")
                                (component
                                  (export "alskgn-mbnaj4-a33i5nf")
                                  (export "dojgn-ejs9-nd188")
                                )
                                (component
                                  (export "q")
                                )
                                (component
                                  (export "afhinds-T39OIDN-f1jsj11")
                                  (import "sf-gqo3ngin23ogin13g-bvcad")
                                )
                                (component
                                  (export "EGG-y-GG-qq")
                                  (export "00AGGG.Gle '$$qq")
                                )
                                (component
                                  (export "q")
                                )
                                (component
                                  (export "b 3@E*******************")
                                  (import "bsdew2-sdbsdb")
                                )
                                (component
                                  (export "c 0.*************")
                                  (export "00AGGWGle A*$$qq")
                                )
                                (component)
                              )
                              (component
                                (export "q")
                              )
                              (component
                                (export "c 3@E*********GG$qq**")
                                (export "dojgn-ejs9-nd188")
                              )
                              (component
                                (export "q")
                              )
                              (component
                                (export "c 3@E************[******")
                                (import "bsdew2-sdbsdb")
                              )
                              (component
                                (export "c t.*************")
                                (export "00AGGGGle *$$qq")
                              )
                              (component)
                            )
                            (component
                              (export "q")
                            )
                            (component
                              (export "c 6@E$*************7777777777777777777777777777777777777777777MM~MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM777777777777777777777777777777777777777777*****")
                              (import "00e*$$qq")
                            )
                            (component
                              (export "EGG-y-GG-qq")
                              (export "00AGGG.Gle $$qq")
                            )
                            (component
                              (export "q")
                            )
                            (component
                              (export "c 3@E*******************")
                              (import "bsdew2-sdbsdb")
                            )
                            (component
                              (export "c 1.*************")
                              (export "00AGGGGle A*$$qq")
                            )
                            (component)
                          )
                          (component
                            (export "q")
                          )
                          (component
                            (export "c 4@E****\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\*****GG$qq**")
                            (export "dojgn-ejs9-nd188")
                          )
                          (component
                            (export "q")
                          )
                          (component
                            (export "c 3@E*******************")
                            (import "00CGGGGle*$$qq")
                          )
                          (component
                            (export "c t.*************")
                            (export "00AGGGGle *$$qq")
                          )
                          (component)
                        )
                        (component
                          (export "q")
                        )
                        (component
                          (export "c 3@E*******77777777777777777777777777777777GG)le 0AGGGGle $$qq")
                        )
                        (component
                          (export "q")
                        )
                        (component
                          (export "c 3@E*******************")
                          (import "00CGGGGle*$$qq")
                        )
                        (component
                          (export "c t.*************")
                          (export "00AGGGGl4@E****\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\*****GG$qq**")
                          (export "dojgn-ejs9-nd188")
                        )
                        (component
                          (export "q")
                        )
                        (component
                          (export "c 3@E*******************")
                          (import "00CGGGGle*$$qq")
                        )
                        (component
                          (export "c t.*************")
                          (export "00AGGGGle *$$qq")
                        )
                        (component)
                      )
                      (component
                        (export "q")
                      )
                      (component
                        (export "c 3@E*******77777777777777777777777777777777GG)le 0AGGGGle $$qq")
                      )
                      (component
                        (export "q")
                      )
                      (component
                        (export "c 3@E*******************")
                        (import "00CGGGGle*$$qq")
                      )
                      (component
                        (export "c t.*************")
                        (export "00AGGGGle *$$qq")
                      )
                      (component)
                    )
                    (component
                      (export "q")
                    )
                    (component
                      (export "c 3@E**************777777777777777777777777777777777777777777777777777777777777771.*************")
                      (export "00AGGGGle A*$$qq")
                    )
                    (component)
                  )
                  (component
                    (export "q")
                  )
                  (component
                    (export "c 4@E****\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\*****GG$qq**")
                    (export "dojgn-ejs9-nd188")
                  )
                  (component
                    (export "q")
                  )
                  (component
                    (export "c 3@E*******************")
                    (import "00CGGGGle*$$qq")
                  )
                  (component
                    (export "c t.*************")
                    (export "00AGGGGle *$$qq")
                  )
                  (component)
                )
                (component
                  (export "q")
                )
                (component
                  (export "c 3@E*******77777777777777777777777777777777GG)le 0AGGGGle $$qq")
                )
                (component
                  (export "q")
                )
                (component
                  (export "c 3@E*******************")
                  (import "00CGGGGle*$$qq")
                )
                (component
                  (export "c t.*************")
                  (export "00AGGGGl4@E****\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\*****GG$qq**")
                  (export "dojgn-ejs9-nd188")
                )
                (component
                  (export "q")
                )
                (component
                  (export "c 3@E*******************")
                  (import "00CGGGGle*$$qq")
                )
                (component
                  (export "c t.*************")
                  (export "00AGGGGle *$$qq")
                )
                (component)
              )
              (component
                (export "q")
              )
              (component
                (export "c 3@E*******77777777777777777777777777777777GG)le 0AGGGGle $$qq")
              )
              (component
                (export "q")
              )
              (component
                (export "c 3@E*******************")
                (import "00CGGGGle*$$qq")
              )
              (component
                (export "c t.*************")
                (export "00AGGGGle *$$qq")
              )
              (component)
            )
            (component
              (export "q")
            )
            (component
              (export "c 3@E***0AG")
              (component
                (export "c 3@EGG*****+*****e $$qq")
              )
              (component
                (export "q**")
                (export "dojgn-ejs9-nd188")
              )
              (component
                (export "q")
              )
              (component
                (export "c 3@E*******************")
                (import "bsdew2-sdbsdb")
              )
              (component
                (export "c=t.*************")
                (export "00AG")
                (component
                  (export "alskgn-mbnaj4-a33i5nf")
                  (export "dojgn-ejs9-nd188")
                )
                (component
                  (export "q")
                )
                (component
                  (export "afhinds-T39OIDN-f1jsj11")
                  (import "sf-gqo3ngin23ogin13g-bvcad")
                )
                (component
                  (export "EGG-y-GG-qq")
                  (export "00AGGG.Gle '$$qq")
                )
                (component
                  (export "q")
                )
                (component
                  (export "b 3@E*******************")
                  (import "bsdew2-sdbsdb")
                )
                (component
                  (export "c 0.*************")
                  (export "00AGGWGle A*$$qq")
                )
                (component)
              )
              (component
                (export "q")
              )
              (component
                (export "c 3@E*********GG$qq**")
                (export "dojgn-ejs9-nd188")
              )
              (component
                (export "q")
              )
              (component
                (export "c 3@E************[******")
                (import "bsdew2-sdbsdb")
              )
              (component
                (export "c t.*************")
                (export "00AGGGGle *$$qq")
              )
              (component)
            )
            (component
              (export "q")
            )
            (component
              (export "c 6@E$*************7777777777777777777777777777777777777777777MM~MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM777777777777777777777777777777777777777777*****")
              (import "00e*$$qq")
            )
            (component
              (export "EGG-y-GG-qq")
              (export "00AGGG.Gle $$qq")
            )
            (component
              (export "q")
            )
            (component
              (export "c 3@E*******************")
              (import "bsdew2-sdbsdb")
            )
            (component
              (export "c 1.*************")
              (export "00AGGGGle A*$$qq")
            )
            (component)
          )
          (component
            (export "q")
          )
          (component
            (export "c 4@E****\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\*****GG$qq**")
            (export "dojgn-ejs9-nd188")
          )
          (component
            (export "q")
          )
          (component
            (export "c 3@E*******************")
            (import "00CGGGGle*$$qq")
          )
          (component
            (export "c t.*************")
            (export "00AGGGGle *$$qq")
          )
          (component)
        )
        (component
          (export "q")
        )
        (component
          (export "c 3@E*******77777777777777777777777777777777GG)le 0AGGGGle $$qq")
        )
        (component
          (export "q")
        )
        (component
          (export "c 3@E*******************")
          (import "00CGGGGle*$$qq")
        )
        (component
          (export "c t.*************")
          (export "00AGGGGl4@E****\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\*****GG$qq**")
          (export "dojgn-ejs9-nd188")
        )
        (component
          (export "q")
        )
        (component
          (export "c 3@E*******************")
          (import "00CGGGGle*$$qq")
        )
        (component
          (export "c t.*************")
          (export "00AGGGGle *$$qq")
        )
        (component)
      )
      (component
        (export "q")
      )
      (component
        (export "c 3@E*******77777777777777777777777777777777GG)le 0AGGGGle $$qq")
      )
      (component
        (export "q")
      )
      (component
        (export "c 3@E*******************")
        (import "00CGGGGle*$$qq")
      )
      (component
        (export "c t.*************")
        (export "00AGGGGle *$$qq")
      )
      (component)
    )
  )
  "conflicts with previous name")

(assert_invalid
  (component
    (type $m0 (component))
    (type $m1 (component
      (import "i1" (component (type $m0)))
      (import "i2" (component (type $m0)))
      (import "i3" (component (type $m0)))
      (import "i4" (component (type $m0)))
      (import "i5" (component (type $m0)))
      (import "i6" (component (type $m0)))
      (import "i7" (component (type $m0)))
      (import "i8" (component (type $m0)))
      (import "i9" (component (type $m0)))
      (import "i10" (component (type $m0)))
    ))
    (type $m2 (component
      (import "i1" (component (type $m1)))
      (import "i2" (component (type $m1)))
      (import "i3" (component (type $m1)))
      (import "i4" (component (type $m1)))
      (import "i5" (component (type $m1)))
      (import "i6" (component (type $m1)))
      (import "i7" (component (type $m1)))
      (import "i8" (component (type $m1)))
      (import "i9" (component (type $m1)))
      (import "i10" (component (type $m1)))
    ))
    (type $m3 (component
      (import "i1" (component (type $m2)))
      (import "i2" (component (type $m2)))
      (import "i3" (component (type $m2)))
      (import "i4" (component (type $m2)))
      (import "i5" (component (type $m2)))
      (import "i6" (component (type $m2)))
      (import "i7" (component (type $m2)))
      (import "i8" (component (type $m2)))
      (import "i9" (component (type $m2)))
      (import "i10" (component (type $m2)))
    ))
    (type $m4 (component
      (import "i1" (component (type $m3)))
      (import "i2" (component (type $m3)))
      (import "i3" (component (type $m3)))
      (import "i4" (component (type $m3)))
      (import "i5" (component (type $m3)))
      (import "i6" (component (type $m3)))
      (import "i7" (component (type $m3)))
      (import "i8" (component (type $m3)))
      (import "i9" (component (type $m3)))
      (import "i10" (component (type $m3)))
    ))
    (type $m5 (component
      (import "i1" (component (type $m4)))
      (import "i2" (component (type $m4)))
      (import "i3" (component (type $m4)))
      (import "i4" (component (type $m4)))
      (import "i5" (component (type $m4)))
      (import "i6" (component (type $m4)))
      (import "i7" (component (type $m4)))
      (import "i8" (component (type $m4)))
      (import "i9" (component (type $m4)))
      (import "i10" (component (type $m4)))
    ))
    (type $m6 (component
      (import "i1" (component (type $m5)))
      (import "i2" (component (type $m5)))
      (import "i3" (component (type $m5)))
      (import "i4" (component (type $m5)))
      (import "i5" (component (type $m5)))
      (import "i6" (component (type $m5)))
      (import "i7" (component (type $m5)))
      (import "i8" (component (type $m5)))
      (import "i9" (component (type $m5)))
      (import "i10" (component (type $m5)))
    ))
    (type $m7 (component
      (import "i1" (component (type $m6)))
      (import "i2" (component (type $m6)))
      (import "i3" (component (type $m6)))
      (import "i4" (component (type $m6)))
      (import "i5" (component (type $m6)))
      (import "i6" (component (type $m6)))
      (import "i7" (component (type $m6)))
      (import "i8" (component (type $m6)))
      (import "i9" (component (type $m6)))
      (import "i10" (component (type $m6)))
    ))
    (type $m8 (component
      (import "i1" (component (type $m7)))
      (import "i2" (component (type $m7)))
      (import "i3" (component (type $m7)))
      (import "i4" (component (type $m7)))
      (import "i5" (component (type $m7)))
      (import "i6" (component (type $m7)))
      (import "i7" (component (type $m7)))
      (import "i8" (component (type $m7)))
      (import "i9" (component (type $m7)))
      (import "i10" (component (type $m7)))
    ))
    (type $m9 (component
      (import "i1" (component (type $m8)))
      (import "i2" (component (type $m8)))
      (import "i3" (component (type $m8)))
      (import "i4" (component (type $m8)))
      (import "i5" (component (type $m8)))
      (import "i6" (component (type $m8)))
      (import "i7" (component (type $m8)))
      (import "i8" (component (type $m8)))
      (import "i9" (component (type $m8)))
      (import "i10" (component (type $m8)))
    ))

    (type $m (component
      (import "a" (component (type $m9)))
    ))
    (import "a" (component $a (type $m9)))
    (import "b" (component $b (type $m)))
    (instance (instantiate $b (with "a" (component $a))))
  )
  "effective type size exceeds the limit")

(assert_invalid
  (component
    (component $m0)
    (component $m1
      (instance (export "e0") (instantiate $m0))
      (instance (export "e1") (instantiate $m0))
      (instance (export "e2") (instantiate $m0))
      (instance (export "e3") (instantiate $m0))
      (instance (export "e4") (instantiate $m0))
      (instance (export "e5") (instantiate $m0))
      (instance (export "e6") (instantiate $m0))
      (instance (export "e7") (instantiate $m0))
      (instance (export "e8") (instantiate $m0))
      (instance (export "e9") (instantiate $m0))
    )
    (component $m2
      (instance (export "e0") (instantiate $m1))
      (instance (export "e1") (instantiate $m1))
      (instance (export "e2") (instantiate $m1))
      (instance (export "e3") (instantiate $m1))
      (instance (export "e4") (instantiate $m1))
      (instance (export "e5") (instantiate $m1))
      (instance (export "e6") (instantiate $m1))
      (instance (export "e7") (instantiate $m1))
      (instance (export "e8") (instantiate $m1))
      (instance (export "e9") (instantiate $m1))
    )
    (component $m3
      (instance (export "e0") (instantiate $m2))
      (instance (export "e1") (instantiate $m2))
      (instance (export "e2") (instantiate $m2))
      (instance (export "e3") (instantiate $m2))
      (instance (export "e4") (instantiate $m2))
      (instance (export "e5") (instantiate $m2))
      (instance (export "e6") (instantiate $m2))
      (instance (export "e7") (instantiate $m2))
      (instance (export "e8") (instantiate $m2))
      (instance (export "e9") (instantiate $m2))
    )
    (component $m4
      (instance (export "e0") (instantiate $m3))
      (instance (export "e1") (instantiate $m3))
      (instance (export "e2") (instantiate $m3))
      (instance (export "e3") (instantiate $m3))
      (instance (export "e4") (instantiate $m3))
      (instance (export "e5") (instantiate $m3))
      (instance (export "e6") (instantiate $m3))
      (instance (export "e7") (instantiate $m3))
      (instance (export "e8") (instantiate $m3))
      (instance (export "e9") (instantiate $m3))
    )
    (component $m5
      (instance (export "e0") (instantiate $m4))
      (instance (export "e1") (instantiate $m4))
      (instance (export "e2") (instantiate $m4))
      (instance (export "e3") (instantiate $m4))
      (instance (export "e4") (instantiate $m4))
      (instance (export "e5") (instantiate $m4))
      (instance (export "e6") (instantiate $m4))
      (instance (export "e7") (instantiate $m4))
      (instance (export "e8") (instantiate $m4))
      (instance (export "e9") (instantiate $m4))
    )
    (component $m6
      (instance (export "e0") (instantiate $m5))
      (instance (export "e1") (instantiate $m5))
      (instance (export "e2") (instantiate $m5))
      (instance (export "e3") (instantiate $m5))
      (instance (export "e4") (instantiate $m5))
      (instance (export "e5") (instantiate $m5))
      (instance (export "e6") (instantiate $m5))
      (instance (export "e7") (instantiate $m5))
      (instance (export "e8") (instantiate $m5))
      (instance (export "e9") (instantiate $m5))
    )
    (component $m7
      (instance (export "e0") (instantiate $m6))
      (instance (export "e1") (instantiate $m6))
      (instance (export "e2") (instantiate $m6))
      (instance (export "e3") (instantiate $m6))
      (instance (export "e4") (instantiate $m6))
      (instance (export "e5") (instantiate $m6))
      (instance (export "e6") (instantiate $m6))
      (instance (export "e7") (instantiate $m6))
      (instance (export "e8") (instantiate $m6))
      (instance (export "e9") (instantiate $m6))
    )
  )
  "effective type size exceeds the limit")

(assert_invalid
  (component
    ;; size(t0) == 1
    (type $t0 (flags "x"))

    ;; size(t1) == 10
    (type $t1 (record
      (field "f0" $t0)
      (field "f1" $t0)
      (field "f2" $t0)
      (field "f3" $t0)
      (field "f4" $t0)
      (field "f5" $t0)
      (field "f6" $t0)
      (field "f7" $t0)
      (field "f8" $t0)
      (field "f9" $t0)
    ))

    ;; size(t2) == 100
    (type $t2 (record
      (field "f0" $t1)
      (field "f1" $t1)
      (field "f2" $t1)
      (field "f3" $t1)
      (field "f4" $t1)
      (field "f5" $t1)
      (field "f6" $t1)
      (field "f7" $t1)
      (field "f8" $t1)
      (field "f9" $t1)
    ))

    ;; size(t3) == 1000
    (type $t3 (record
      (field "f0" $t2)
      (field "f1" $t2)
      (field "f2" $t2)
      (field "f3" $t2)
      (field "f4" $t2)
      (field "f5" $t2)
      (field "f6" $t2)
      (field "f7" $t2)
      (field "f8" $t2)
      (field "f9" $t2)
    ))

    ;; size(t4) == 10000
    (type $t4 (record
      (field "f0" $t3)
      (field "f1" $t3)
      (field "f2" $t3)
      (field "f3" $t3)
      (field "f4" $t3)
      (field "f5" $t3)
      (field "f6" $t3)
      (field "f7" $t3)
      (field "f8" $t3)
      (field "f9" $t3)
    ))

    ;; size(t5) == 100000
    (type $t5 (record
      (field "f0" $t4)
      (field "f1" $t4)
      (field "f2" $t4)
      (field "f3" $t4)
      (field "f4" $t4)
      (field "f5" $t4)
      (field "f6" $t4)
      (field "f7" $t4)
      (field "f8" $t4)
      (field "f9" $t4)
    ))

    (type $f (func
      (param "a" $t5)
      (param "b" $t5)
      (param "c" $t5)
      (param "d" $t5)
      (param "e" $t5)
      (param "f" $t5)
      (param "g" $t5)
      (param "h" $t5)
      (param "i" $t5)
      (param "j" $t5)
    ))
  )
  "effective type size exceeds the limit")

(assert_malformed
  (component quote
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
    "(component(component(component(component(component(component(component"
  )
  "nesting too deep")

;; 100-deep list
(assert_invalid
  (component
    (type $t0 u32)
    (type $t1 (list $t0))
    (type $t2 (list $t1))
    (type $t3 (list $t2))
    (type $t4 (list $t3))
    (type $t5 (list $t4))
    (type $t6 (list $t5))
    (type $t7 (list $t6))
    (type $t8 (list $t7))
    (type $t9 (list $t8))
    (type $t10 (list $t9))
    (type $t11 (list $t10))
    (type $t12 (list $t11))
    (type $t13 (list $t12))
    (type $t14 (list $t13))
    (type $t15 (list $t14))
    (type $t16 (list $t15))
    (type $t17 (list $t16))
    (type $t18 (list $t17))
    (type $t19 (list $t18))
    (type $t20 (list $t19))
    (type $t21 (list $t20))
    (type $t22 (list $t21))
    (type $t23 (list $t22))
    (type $t24 (list $t23))
    (type $t25 (list $t24))
    (type $t26 (list $t25))
    (type $t27 (list $t26))
    (type $t28 (list $t27))
    (type $t29 (list $t28))
    (type $t30 (list $t29))
    (type $t31 (list $t30))
    (type $t32 (list $t31))
    (type $t33 (list $t32))
    (type $t34 (list $t33))
    (type $t35 (list $t34))
    (type $t36 (list $t35))
    (type $t37 (list $t36))
    (type $t38 (list $t37))
    (type $t39 (list $t38))
    (type $t40 (list $t39))
    (type $t41 (list $t40))
    (type $t42 (list $t41))
    (type $t43 (list $t42))
    (type $t44 (list $t43))
    (type $t45 (list $t44))
    (type $t46 (list $t45))
    (type $t47 (list $t46))
    (type $t48 (list $t47))
    (type $t49 (list $t48))
    (type $t50 (list $t49))
    (type $t51 (list $t50))
    (type $t52 (list $t51))
    (type $t53 (list $t52))
    (type $t54 (list $t53))
    (type $t55 (list $t54))
    (type $t56 (list $t55))
    (type $t57 (list $t56))
    (type $t58 (list $t57))
    (type $t59 (list $t58))
    (type $t60 (list $t59))
    (type $t61 (list $t60))
    (type $t62 (list $t61))
    (type $t63 (list $t62))
    (type $t64 (list $t63))
    (type $t65 (list $t64))
    (type $t66 (list $t65))
    (type $t67 (list $t66))
    (type $t68 (list $t67))
    (type $t69 (list $t68))
    (type $t70 (list $t69))
    (type $t71 (list $t70))
    (type $t72 (list $t71))
    (type $t73 (list $t72))
    (type $t74 (list $t73))
    (type $t75 (list $t74))
    (type $t76 (list $t75))
    (type $t77 (list $t76))
    (type $t78 (list $t77))
    (type $t79 (list $t78))
    (type $t80 (list $t79))
    (type $t81 (list $t80))
    (type $t82 (list $t81))
    (type $t83 (list $t82))
    (type $t84 (list $t83))
    (type $t85 (list $t84))
    (type $t86 (list $t85))
    (type $t87 (list $t86))
    (type $t88 (list $t87))
    (type $t89 (list $t88))
    (type $t90 (list $t89))
    (type $t91 (list $t90))
    (type $t92 (list $t91))
    (type $t93 (list $t92))
    (type $t94 (list $t93))
    (type $t95 (list $t94))
    (type $t96 (list $t95))
    (type $t97 (list $t96))
    (type $t98 (list $t97))
    (type $t99 (list $t98))
    (type $t100 (list $t99))
  )
  "type nesting is too deep")

;; Function types add a layer (function type + 99-deep list)
(assert_invalid
  (component
    (type $t0 u32)
    (type $t1 (list $t0))
    (type $t2 (list $t1))
    (type $t3 (list $t2))
    (type $t4 (list $t3))
    (type $t5 (list $t4))
    (type $t6 (list $t5))
    (type $t7 (list $t6))
    (type $t8 (list $t7))
    (type $t9 (list $t8))
    (type $t10 (list $t9))
    (type $t11 (list $t10))
    (type $t12 (list $t11))
    (type $t13 (list $t12))
    (type $t14 (list $t13))
    (type $t15 (list $t14))
    (type $t16 (list $t15))
    (type $t17 (list $t16))
    (type $t18 (list $t17))
    (type $t19 (list $t18))
    (type $t20 (list $t19))
    (type $t21 (list $t20))
    (type $t22 (list $t21))
    (type $t23 (list $t22))
    (type $t24 (list $t23))
    (type $t25 (list $t24))
    (type $t26 (list $t25))
    (type $t27 (list $t26))
    (type $t28 (list $t27))
    (type $t29 (list $t28))
    (type $t30 (list $t29))
    (type $t31 (list $t30))
    (type $t32 (list $t31))
    (type $t33 (list $t32))
    (type $t34 (list $t33))
    (type $t35 (list $t34))
    (type $t36 (list $t35))
    (type $t37 (list $t36))
    (type $t38 (list $t37))
    (type $t39 (list $t38))
    (type $t40 (list $t39))
    (type $t41 (list $t40))
    (type $t42 (list $t41))
    (type $t43 (list $t42))
    (type $t44 (list $t43))
    (type $t45 (list $t44))
    (type $t46 (list $t45))
    (type $t47 (list $t46))
    (type $t48 (list $t47))
    (type $t49 (list $t48))
    (type $t50 (list $t49))
    (type $t51 (list $t50))
    (type $t52 (list $t51))
    (type $t53 (list $t52))
    (type $t54 (list $t53))
    (type $t55 (list $t54))
    (type $t56 (list $t55))
    (type $t57 (list $t56))
    (type $t58 (list $t57))
    (type $t59 (list $t58))
    (type $t60 (list $t59))
    (type $t61 (list $t60))
    (type $t62 (list $t61))
    (type $t63 (list $t62))
    (type $t64 (list $t63))
    (type $t65 (list $t64))
    (type $t66 (list $t65))
    (type $t67 (list $t66))
    (type $t68 (list $t67))
    (type $t69 (list $t68))
    (type $t70 (list $t69))
    (type $t71 (list $t70))
    (type $t72 (list $t71))
    (type $t73 (list $t72))
    (type $t74 (list $t73))
    (type $t75 (list $t74))
    (type $t76 (list $t75))
    (type $t77 (list $t76))
    (type $t78 (list $t77))
    (type $t79 (list $t78))
    (type $t80 (list $t79))
    (type $t81 (list $t80))
    (type $t82 (list $t81))
    (type $t83 (list $t82))
    (type $t84 (list $t83))
    (type $t85 (list $t84))
    (type $t86 (list $t85))
    (type $t87 (list $t86))
    (type $t88 (list $t87))
    (type $t89 (list $t88))
    (type $t90 (list $t89))
    (type $t91 (list $t90))
    (type $t92 (list $t91))
    (type $t93 (list $t92))
    (type $t94 (list $t93))
    (type $t95 (list $t94))
    (type $t96 (list $t95))
    (type $t97 (list $t96))
    (type $t98 (list $t97))
    (type $t99 (list $t98))
    (type $f (func (param "x" $t99)))
  )
  "type nesting is too deep")

;; instance type that's very deep
(assert_invalid
  (component
    (type $i0 (instance (export "f" (func))))
    (type $i1 (instance (export "i" (instance (type $i0)))))
    (type $i2 (instance (export "i" (instance (type $i1)))))
    (type $i3 (instance (export "i" (instance (type $i2)))))
    (type $i4 (instance (export "i" (instance (type $i3)))))
    (type $i5 (instance (export "i" (instance (type $i4)))))
    (type $i6 (instance (export "i" (instance (type $i5)))))
    (type $i7 (instance (export "i" (instance (type $i6)))))
    (type $i8 (instance (export "i" (instance (type $i7)))))
    (type $i9 (instance (export "i" (instance (type $i8)))))
    (type $i10 (instance (export "i" (instance (type $i9)))))
    (type $i11 (instance (export "i" (instance (type $i10)))))
    (type $i12 (instance (export "i" (instance (type $i11)))))
    (type $i13 (instance (export "i" (instance (type $i12)))))
    (type $i14 (instance (export "i" (instance (type $i13)))))
    (type $i15 (instance (export "i" (instance (type $i14)))))
    (type $i16 (instance (export "i" (instance (type $i15)))))
    (type $i17 (instance (export "i" (instance (type $i16)))))
    (type $i18 (instance (export "i" (instance (type $i17)))))
    (type $i19 (instance (export "i" (instance (type $i18)))))
    (type $i20 (instance (export "i" (instance (type $i19)))))
    (type $i21 (instance (export "i" (instance (type $i20)))))
    (type $i22 (instance (export "i" (instance (type $i21)))))
    (type $i23 (instance (export "i" (instance (type $i22)))))
    (type $i24 (instance (export "i" (instance (type $i23)))))
    (type $i25 (instance (export "i" (instance (type $i24)))))
    (type $i26 (instance (export "i" (instance (type $i25)))))
    (type $i27 (instance (export "i" (instance (type $i26)))))
    (type $i28 (instance (export "i" (instance (type $i27)))))
    (type $i29 (instance (export "i" (instance (type $i28)))))
    (type $i30 (instance (export "i" (instance (type $i29)))))
    (type $i31 (instance (export "i" (instance (type $i30)))))
    (type $i32 (instance (export "i" (instance (type $i31)))))
    (type $i33 (instance (export "i" (instance (type $i32)))))
    (type $i34 (instance (export "i" (instance (type $i33)))))
    (type $i35 (instance (export "i" (instance (type $i34)))))
    (type $i36 (instance (export "i" (instance (type $i35)))))
    (type $i37 (instance (export "i" (instance (type $i36)))))
    (type $i38 (instance (export "i" (instance (type $i37)))))
    (type $i39 (instance (export "i" (instance (type $i38)))))
    (type $i40 (instance (export "i" (instance (type $i39)))))
    (type $i41 (instance (export "i" (instance (type $i40)))))
    (type $i42 (instance (export "i" (instance (type $i41)))))
    (type $i43 (instance (export "i" (instance (type $i42)))))
    (type $i44 (instance (export "i" (instance (type $i43)))))
    (type $i45 (instance (export "i" (instance (type $i44)))))
    (type $i46 (instance (export "i" (instance (type $i45)))))
    (type $i47 (instance (export "i" (instance (type $i46)))))
    (type $i48 (instance (export "i" (instance (type $i47)))))
    (type $i49 (instance (export "i" (instance (type $i48)))))
    (type $i50 (instance (export "i" (instance (type $i49)))))
    (type $i51 (instance (export "i" (instance (type $i50)))))
    (type $i52 (instance (export "i" (instance (type $i51)))))
    (type $i53 (instance (export "i" (instance (type $i52)))))
    (type $i54 (instance (export "i" (instance (type $i53)))))
    (type $i55 (instance (export "i" (instance (type $i54)))))
    (type $i56 (instance (export "i" (instance (type $i55)))))
    (type $i57 (instance (export "i" (instance (type $i56)))))
    (type $i58 (instance (export "i" (instance (type $i57)))))
    (type $i59 (instance (export "i" (instance (type $i58)))))
    (type $i60 (instance (export "i" (instance (type $i59)))))
    (type $i61 (instance (export "i" (instance (type $i60)))))
    (type $i62 (instance (export "i" (instance (type $i61)))))
    (type $i63 (instance (export "i" (instance (type $i62)))))
    (type $i64 (instance (export "i" (instance (type $i63)))))
    (type $i65 (instance (export "i" (instance (type $i64)))))
    (type $i66 (instance (export "i" (instance (type $i65)))))
    (type $i67 (instance (export "i" (instance (type $i66)))))
    (type $i68 (instance (export "i" (instance (type $i67)))))
    (type $i69 (instance (export "i" (instance (type $i68)))))
    (type $i70 (instance (export "i" (instance (type $i69)))))
    (type $i71 (instance (export "i" (instance (type $i70)))))
    (type $i72 (instance (export "i" (instance (type $i71)))))
    (type $i73 (instance (export "i" (instance (type $i72)))))
    (type $i74 (instance (export "i" (instance (type $i73)))))
    (type $i75 (instance (export "i" (instance (type $i74)))))
    (type $i76 (instance (export "i" (instance (type $i75)))))
    (type $i77 (instance (export "i" (instance (type $i76)))))
    (type $i78 (instance (export "i" (instance (type $i77)))))
    (type $i79 (instance (export "i" (instance (type $i78)))))
    (type $i80 (instance (export "i" (instance (type $i79)))))
    (type $i81 (instance (export "i" (instance (type $i80)))))
    (type $i82 (instance (export "i" (instance (type $i81)))))
    (type $i83 (instance (export "i" (instance (type $i82)))))
    (type $i84 (instance (export "i" (instance (type $i83)))))
    (type $i85 (instance (export "i" (instance (type $i84)))))
    (type $i86 (instance (export "i" (instance (type $i85)))))
    (type $i87 (instance (export "i" (instance (type $i86)))))
    (type $i88 (instance (export "i" (instance (type $i87)))))
    (type $i89 (instance (export "i" (instance (type $i88)))))
    (type $i90 (instance (export "i" (instance (type $i89)))))
    (type $i91 (instance (export "i" (instance (type $i90)))))
    (type $i92 (instance (export "i" (instance (type $i91)))))
    (type $i93 (instance (export "i" (instance (type $i92)))))
    (type $i94 (instance (export "i" (instance (type $i93)))))
    (type $i95 (instance (export "i" (instance (type $i94)))))
    (type $i96 (instance (export "i" (instance (type $i95)))))
    (type $i97 (instance (export "i" (instance (type $i96)))))
    (type $i98 (instance (export "i" (instance (type $i97)))))
    (type $i99 (instance (export "i" (instance (type $i98)))))
  )
  "type nesting is too deep")

;; Component types (nested component exports): depth 99 is rejected.
(assert_invalid
  (component
    (type $c0 (component (export "f" (func))))
    (type $c1 (component (export "c" (component (type $c0)))))
    (type $c2 (component (export "c" (component (type $c1)))))
    (type $c3 (component (export "c" (component (type $c2)))))
    (type $c4 (component (export "c" (component (type $c3)))))
    (type $c5 (component (export "c" (component (type $c4)))))
    (type $c6 (component (export "c" (component (type $c5)))))
    (type $c7 (component (export "c" (component (type $c6)))))
    (type $c8 (component (export "c" (component (type $c7)))))
    (type $c9 (component (export "c" (component (type $c8)))))
    (type $c10 (component (export "c" (component (type $c9)))))
    (type $c11 (component (export "c" (component (type $c10)))))
    (type $c12 (component (export "c" (component (type $c11)))))
    (type $c13 (component (export "c" (component (type $c12)))))
    (type $c14 (component (export "c" (component (type $c13)))))
    (type $c15 (component (export "c" (component (type $c14)))))
    (type $c16 (component (export "c" (component (type $c15)))))
    (type $c17 (component (export "c" (component (type $c16)))))
    (type $c18 (component (export "c" (component (type $c17)))))
    (type $c19 (component (export "c" (component (type $c18)))))
    (type $c20 (component (export "c" (component (type $c19)))))
    (type $c21 (component (export "c" (component (type $c20)))))
    (type $c22 (component (export "c" (component (type $c21)))))
    (type $c23 (component (export "c" (component (type $c22)))))
    (type $c24 (component (export "c" (component (type $c23)))))
    (type $c25 (component (export "c" (component (type $c24)))))
    (type $c26 (component (export "c" (component (type $c25)))))
    (type $c27 (component (export "c" (component (type $c26)))))
    (type $c28 (component (export "c" (component (type $c27)))))
    (type $c29 (component (export "c" (component (type $c28)))))
    (type $c30 (component (export "c" (component (type $c29)))))
    (type $c31 (component (export "c" (component (type $c30)))))
    (type $c32 (component (export "c" (component (type $c31)))))
    (type $c33 (component (export "c" (component (type $c32)))))
    (type $c34 (component (export "c" (component (type $c33)))))
    (type $c35 (component (export "c" (component (type $c34)))))
    (type $c36 (component (export "c" (component (type $c35)))))
    (type $c37 (component (export "c" (component (type $c36)))))
    (type $c38 (component (export "c" (component (type $c37)))))
    (type $c39 (component (export "c" (component (type $c38)))))
    (type $c40 (component (export "c" (component (type $c39)))))
    (type $c41 (component (export "c" (component (type $c40)))))
    (type $c42 (component (export "c" (component (type $c41)))))
    (type $c43 (component (export "c" (component (type $c42)))))
    (type $c44 (component (export "c" (component (type $c43)))))
    (type $c45 (component (export "c" (component (type $c44)))))
    (type $c46 (component (export "c" (component (type $c45)))))
    (type $c47 (component (export "c" (component (type $c46)))))
    (type $c48 (component (export "c" (component (type $c47)))))
    (type $c49 (component (export "c" (component (type $c48)))))
    (type $c50 (component (export "c" (component (type $c49)))))
    (type $c51 (component (export "c" (component (type $c50)))))
    (type $c52 (component (export "c" (component (type $c51)))))
    (type $c53 (component (export "c" (component (type $c52)))))
    (type $c54 (component (export "c" (component (type $c53)))))
    (type $c55 (component (export "c" (component (type $c54)))))
    (type $c56 (component (export "c" (component (type $c55)))))
    (type $c57 (component (export "c" (component (type $c56)))))
    (type $c58 (component (export "c" (component (type $c57)))))
    (type $c59 (component (export "c" (component (type $c58)))))
    (type $c60 (component (export "c" (component (type $c59)))))
    (type $c61 (component (export "c" (component (type $c60)))))
    (type $c62 (component (export "c" (component (type $c61)))))
    (type $c63 (component (export "c" (component (type $c62)))))
    (type $c64 (component (export "c" (component (type $c63)))))
    (type $c65 (component (export "c" (component (type $c64)))))
    (type $c66 (component (export "c" (component (type $c65)))))
    (type $c67 (component (export "c" (component (type $c66)))))
    (type $c68 (component (export "c" (component (type $c67)))))
    (type $c69 (component (export "c" (component (type $c68)))))
    (type $c70 (component (export "c" (component (type $c69)))))
    (type $c71 (component (export "c" (component (type $c70)))))
    (type $c72 (component (export "c" (component (type $c71)))))
    (type $c73 (component (export "c" (component (type $c72)))))
    (type $c74 (component (export "c" (component (type $c73)))))
    (type $c75 (component (export "c" (component (type $c74)))))
    (type $c76 (component (export "c" (component (type $c75)))))
    (type $c77 (component (export "c" (component (type $c76)))))
    (type $c78 (component (export "c" (component (type $c77)))))
    (type $c79 (component (export "c" (component (type $c78)))))
    (type $c80 (component (export "c" (component (type $c79)))))
    (type $c81 (component (export "c" (component (type $c80)))))
    (type $c82 (component (export "c" (component (type $c81)))))
    (type $c83 (component (export "c" (component (type $c82)))))
    (type $c84 (component (export "c" (component (type $c83)))))
    (type $c85 (component (export "c" (component (type $c84)))))
    (type $c86 (component (export "c" (component (type $c85)))))
    (type $c87 (component (export "c" (component (type $c86)))))
    (type $c88 (component (export "c" (component (type $c87)))))
    (type $c89 (component (export "c" (component (type $c88)))))
    (type $c90 (component (export "c" (component (type $c89)))))
    (type $c91 (component (export "c" (component (type $c90)))))
    (type $c92 (component (export "c" (component (type $c91)))))
    (type $c93 (component (export "c" (component (type $c92)))))
    (type $c94 (component (export "c" (component (type $c93)))))
    (type $c95 (component (export "c" (component (type $c94)))))
    (type $c96 (component (export "c" (component (type $c95)))))
    (type $c97 (component (export "c" (component (type $c96)))))
    (type $c98 (component (export "c" (component (type $c97)))))
    (type $c99 (component (export "c" (component (type $c98)))))
  )
  "type nesting is too deep")

;; over 100 also doesn't validate, or panic
(assert_invalid
  (component
    (type $i0 (instance (export "f" (func))))
    (type $i1 (instance (export "i" (instance (type $i0)))))
    (type $i2 (instance (export "i" (instance (type $i1)))))
    (type $i3 (instance (export "i" (instance (type $i2)))))
    (type $i4 (instance (export "i" (instance (type $i3)))))
    (type $i5 (instance (export "i" (instance (type $i4)))))
    (type $i6 (instance (export "i" (instance (type $i5)))))
    (type $i7 (instance (export "i" (instance (type $i6)))))
    (type $i8 (instance (export "i" (instance (type $i7)))))
    (type $i9 (instance (export "i" (instance (type $i8)))))
    (type $i10 (instance (export "i" (instance (type $i9)))))
    (type $i11 (instance (export "i" (instance (type $i10)))))
    (type $i12 (instance (export "i" (instance (type $i11)))))
    (type $i13 (instance (export "i" (instance (type $i12)))))
    (type $i14 (instance (export "i" (instance (type $i13)))))
    (type $i15 (instance (export "i" (instance (type $i14)))))
    (type $i16 (instance (export "i" (instance (type $i15)))))
    (type $i17 (instance (export "i" (instance (type $i16)))))
    (type $i18 (instance (export "i" (instance (type $i17)))))
    (type $i19 (instance (export "i" (instance (type $i18)))))
    (type $i20 (instance (export "i" (instance (type $i19)))))
    (type $i21 (instance (export "i" (instance (type $i20)))))
    (type $i22 (instance (export "i" (instance (type $i21)))))
    (type $i23 (instance (export "i" (instance (type $i22)))))
    (type $i24 (instance (export "i" (instance (type $i23)))))
    (type $i25 (instance (export "i" (instance (type $i24)))))
    (type $i26 (instance (export "i" (instance (type $i25)))))
    (type $i27 (instance (export "i" (instance (type $i26)))))
    (type $i28 (instance (export "i" (instance (type $i27)))))
    (type $i29 (instance (export "i" (instance (type $i28)))))
    (type $i30 (instance (export "i" (instance (type $i29)))))
    (type $i31 (instance (export "i" (instance (type $i30)))))
    (type $i32 (instance (export "i" (instance (type $i31)))))
    (type $i33 (instance (export "i" (instance (type $i32)))))
    (type $i34 (instance (export "i" (instance (type $i33)))))
    (type $i35 (instance (export "i" (instance (type $i34)))))
    (type $i36 (instance (export "i" (instance (type $i35)))))
    (type $i37 (instance (export "i" (instance (type $i36)))))
    (type $i38 (instance (export "i" (instance (type $i37)))))
    (type $i39 (instance (export "i" (instance (type $i38)))))
    (type $i40 (instance (export "i" (instance (type $i39)))))
    (type $i41 (instance (export "i" (instance (type $i40)))))
    (type $i42 (instance (export "i" (instance (type $i41)))))
    (type $i43 (instance (export "i" (instance (type $i42)))))
    (type $i44 (instance (export "i" (instance (type $i43)))))
    (type $i45 (instance (export "i" (instance (type $i44)))))
    (type $i46 (instance (export "i" (instance (type $i45)))))
    (type $i47 (instance (export "i" (instance (type $i46)))))
    (type $i48 (instance (export "i" (instance (type $i47)))))
    (type $i49 (instance (export "i" (instance (type $i48)))))
    (type $i50 (instance (export "i" (instance (type $i49)))))
    (type $i51 (instance (export "i" (instance (type $i50)))))
    (type $i52 (instance (export "i" (instance (type $i51)))))
    (type $i53 (instance (export "i" (instance (type $i52)))))
    (type $i54 (instance (export "i" (instance (type $i53)))))
    (type $i55 (instance (export "i" (instance (type $i54)))))
    (type $i56 (instance (export "i" (instance (type $i55)))))
    (type $i57 (instance (export "i" (instance (type $i56)))))
    (type $i58 (instance (export "i" (instance (type $i57)))))
    (type $i59 (instance (export "i" (instance (type $i58)))))
    (type $i60 (instance (export "i" (instance (type $i59)))))
    (type $i61 (instance (export "i" (instance (type $i60)))))
    (type $i62 (instance (export "i" (instance (type $i61)))))
    (type $i63 (instance (export "i" (instance (type $i62)))))
    (type $i64 (instance (export "i" (instance (type $i63)))))
    (type $i65 (instance (export "i" (instance (type $i64)))))
    (type $i66 (instance (export "i" (instance (type $i65)))))
    (type $i67 (instance (export "i" (instance (type $i66)))))
    (type $i68 (instance (export "i" (instance (type $i67)))))
    (type $i69 (instance (export "i" (instance (type $i68)))))
    (type $i70 (instance (export "i" (instance (type $i69)))))
    (type $i71 (instance (export "i" (instance (type $i70)))))
    (type $i72 (instance (export "i" (instance (type $i71)))))
    (type $i73 (instance (export "i" (instance (type $i72)))))
    (type $i74 (instance (export "i" (instance (type $i73)))))
    (type $i75 (instance (export "i" (instance (type $i74)))))
    (type $i76 (instance (export "i" (instance (type $i75)))))
    (type $i77 (instance (export "i" (instance (type $i76)))))
    (type $i78 (instance (export "i" (instance (type $i77)))))
    (type $i79 (instance (export "i" (instance (type $i78)))))
    (type $i80 (instance (export "i" (instance (type $i79)))))
    (type $i81 (instance (export "i" (instance (type $i80)))))
    (type $i82 (instance (export "i" (instance (type $i81)))))
    (type $i83 (instance (export "i" (instance (type $i82)))))
    (type $i84 (instance (export "i" (instance (type $i83)))))
    (type $i85 (instance (export "i" (instance (type $i84)))))
    (type $i86 (instance (export "i" (instance (type $i85)))))
    (type $i87 (instance (export "i" (instance (type $i86)))))
    (type $i88 (instance (export "i" (instance (type $i87)))))
    (type $i89 (instance (export "i" (instance (type $i88)))))
    (type $i90 (instance (export "i" (instance (type $i89)))))
    (type $i91 (instance (export "i" (instance (type $i90)))))
    (type $i92 (instance (export "i" (instance (type $i91)))))
    (type $i93 (instance (export "i" (instance (type $i92)))))
    (type $i94 (instance (export "i" (instance (type $i93)))))
    (type $i95 (instance (export "i" (instance (type $i94)))))
    (type $i96 (instance (export "i" (instance (type $i95)))))
    (type $i97 (instance (export "i" (instance (type $i96)))))
    (type $i98 (instance (export "i" (instance (type $i97)))))
    (type $i99 (instance (export "i" (instance (type $i98)))))
    (type $i100 (instance (export "i" (instance (type $i99)))))
    (type $i101 (instance (export "i" (instance (type $i100)))))
    (type $i102 (instance (export "i" (instance (type $i101)))))
    (type $i103 (instance (export "i" (instance (type $i102)))))
    (type $i104 (instance (export "i" (instance (type $i103)))))
    (type $i105 (instance (export "i" (instance (type $i104)))))
    (type $i106 (instance (export "i" (instance (type $i105)))))
    (type $i107 (instance (export "i" (instance (type $i106)))))
    (type $i108 (instance (export "i" (instance (type $i107)))))
    (type $i109 (instance (export "i" (instance (type $i108)))))
    (type $i110 (instance (export "i" (instance (type $i109)))))
    (type $i111 (instance (export "i" (instance (type $i110)))))
    (type $i112 (instance (export "i" (instance (type $i111)))))
    (type $i113 (instance (export "i" (instance (type $i112)))))
    (type $i114 (instance (export "i" (instance (type $i113)))))
    (type $i115 (instance (export "i" (instance (type $i114)))))
    (type $i116 (instance (export "i" (instance (type $i115)))))
    (type $i117 (instance (export "i" (instance (type $i116)))))
    (type $i118 (instance (export "i" (instance (type $i117)))))
    (type $i119 (instance (export "i" (instance (type $i118)))))
    (type $i120 (instance (export "i" (instance (type $i119)))))
    (type $i121 (instance (export "i" (instance (type $i120)))))
    (type $i122 (instance (export "i" (instance (type $i121)))))
    (type $i123 (instance (export "i" (instance (type $i122)))))
    (type $i124 (instance (export "i" (instance (type $i123)))))
    (type $i125 (instance (export "i" (instance (type $i124)))))
    (type $i126 (instance (export "i" (instance (type $i125)))))
    (type $i127 (instance (export "i" (instance (type $i126)))))
    (type $i128 (instance (export "i" (instance (type $i127)))))
    (type $i129 (instance (export "i" (instance (type $i128)))))
    (type $i130 (instance (export "i" (instance (type $i129)))))
  )
  "type nesting is too deep")

;; Outer aliases of types across a component boundary are charged against a
;; per-component type size budget, as the aliased type must be checked for
;; resources.
(component $c
  (type $t0 (tuple u32 u32 u32 u32 u32 u32 u32 u32))
  (type $t1 (tuple $t0 $t0))
  (type $t2 (tuple $t1 $t1))
  (type $t3 (tuple $t2 $t2))
  (type $t4 (tuple $t3 $t3))
  (type $t5 (tuple $t4 $t4))
  (type $t6 (tuple $t5 $t5))
  (type $t7 (tuple $t6 $t6))
  (type $t8 (tuple $t7 $t7))
  (type $t9 (tuple $t8 $t8))
  (type $t10 (tuple $t9 $t9))
  (type $t11 (tuple $t10 $t10))
  (type $t12 (tuple $t11 $t11))
  (type $t13 (tuple $t12 $t12))
  (type $t14 (tuple $t13 $t13))
  (type $t15 (tuple $t14 $t14))
  (type $t16 (tuple $t15 $t15))
  (component
    (alias outer $c $t16 (type))
  )
)
(assert_invalid
  (component $c
    (type $t0 (tuple u32 u32 u32 u32 u32 u32 u32 u32))
    (type $t1 (tuple $t0 $t0))
    (type $t2 (tuple $t1 $t1))
    (type $t3 (tuple $t2 $t2))
    (type $t4 (tuple $t3 $t3))
    (type $t5 (tuple $t4 $t4))
    (type $t6 (tuple $t5 $t5))
    (type $t7 (tuple $t6 $t6))
    (type $t8 (tuple $t7 $t7))
    (type $t9 (tuple $t8 $t8))
    (type $t10 (tuple $t9 $t9))
    (type $t11 (tuple $t10 $t10))
    (type $t12 (tuple $t11 $t11))
    (type $t13 (tuple $t12 $t12))
    (type $t14 (tuple $t13 $t13))
    (type $t15 (tuple $t14 $t14))
    (type $t16 (tuple $t15 $t15))
    (component
      (alias outer $c $t16 (type))
      (alias outer $c $t16 (type))
    )
  )
  "effective type size exceeds the limit")
